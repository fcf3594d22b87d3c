// The fleet as a table that can be typed into. The rows keep the columns that are not shown, such as power.
const FleetTable = (() => {
  const { element } = Drawing, $ = id => document.getElementById(id);
  const MOST = 30;  // rows that are shown
  const MOST_LAW = 200;  // characters of a law that are shown
  const COLUMNS = { name: "name", count: "clients", rate: "tasks per second", law: "law" };
  const LINKS = { uplink_rate: "updates sent per second", downlink_rate: "models received per second" };
  let rows = [], changed = () => {};

  const columns = () => ({ ...COLUMNS, ...($("links").checked ? LINKS : {}) });

  const durations = law => `${law.trim().split(/\s+/).length.toLocaleString("en")} durations`;

  function input(row, place, key, label) {
    const made = element("input");
    const long = key === "law" && String(row[key] ?? "").length > MOST_LAW;  // it stays in the row
    made.value = long ? "" : row[key] ?? "";
    made.className = key;
    made.disabled = !Source.free;
    made.setAttribute("aria-label", `${label} of group ${place + 1}`);
    made.setAttribute("aria-describedby", "fleet-error");
    if (key === "law") made.placeholder = long ? durations(row[key]) : "exponential";
    if (key in LINKS) made.placeholder = "no link";
    made.addEventListener("input", () => {
      if (key === "law") made.placeholder = "exponential";
      if (made.value.trim() === "") delete row[key];
      else row[key] = made.value;
      changed(true);
    });
    return made;
  }

  function remove(place) {
    const made = element("button", "Remove");
    made.type = "button";
    made.setAttribute("aria-label", `Remove group ${place + 1}`);
    made.addEventListener("click", () => {
      rows.splice(place, 1);
      draw();
      changed(false);
      const left = $("fleet").querySelectorAll("button");
      (left[Math.min(place, left.length - 1)] || $("add")).focus();
    });
    return made;
  }

  function draw() {
    const table = $("fleet"), top = document.createElement("thead"), first = top.insertRow(), body = document.createElement("tbody");
    const shown = columns(), whole = rows.length <= MOST;
    for (const name of Object.values(shown)) {
      const cell = element("th", name);
      cell.scope = "col";
      first.append(cell);
    }
    rows.slice(0, whole ? MOST : 5).forEach((row, place) => {
      const line = body.insertRow();
      for (const [key, label] of Object.entries(shown)) {
        const cell = line.insertCell();
        cell.dataset.label = label;  // stands above the field where the heads of columns have no room
        cell.append(input(row, place, key, label));
      }
      if (Source.free && rows.length > 1) line.insertCell().append(remove(place));
    });
    const many = rows.length.toLocaleString("en");
    const caption = element("caption", whole ? "Groups of equal clients" : `The first 5 of ${many} groups`);
    table.replaceChildren(caption, top, body);
  }

  function mark(sentence) {  // the row that a sentence is about, if it names one
    $("fleet-error").textContent = sentence;
    const row = /^row (\d+): (?:column ')?(\w+)/.exec(sentence) || [], group = /^(\w+) of group '(.*?)' must/.exec(sentence) || [];
    const place = row[1] ? Number(row[1]) - 1 : rows.findIndex(one => one.name === group[2]);
    const key = row[2] || group[1];
    $("fleet").querySelectorAll("tbody tr").forEach((line, at) => line.querySelectorAll("input").forEach(cell =>
      cell.setAttribute("aria-invalid", String(Boolean(sentence) && at === place && cell.className === key))));
  }

  function set(groups) {
    rows = JSON.parse(JSON.stringify(groups));
    $("links").checked = rows.some(row => "uplink_rate" in row || "downlink_rate" in row);
    draw();
  }

  $("links").addEventListener("change", () => {
    if (!$("links").checked) for (const row of rows) for (const key of Object.keys(LINKS)) delete row[key];
    draw();
    changed(false);
  });
  $("add").addEventListener("click", () => {
    const taken = new Set(rows.map(row => row.name));
    let next = rows.length + 1;
    while (taken.has(`group-${next}`)) next += 1;
    rows.push({ name: `group-${next}`, count: 10, rate: 1 });
    draw();
    changed(false);
    const line = $("fleet").querySelector("tbody tr:last-child input");
    if (line) line.focus();
  });

  return { set, mark, rows: () => rows, onChange: call => { changed = call; } };
})();
