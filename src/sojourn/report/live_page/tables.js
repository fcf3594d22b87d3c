// The words and tables of the page. Whatever comes from the run is put in as text, never as HTML.
const Tables = (() => {
  const number = Charts.number, SVG = "http://www.w3.org/2000/svg";
  const whole = value => value === null ? "–" : value.toLocaleString("en");
  const percent = value => value === null ? "–" : `${(100 * value).toFixed(1)}%`;

  function fill(id, head, rows, caption) {
    const table = document.getElementById(id);
    const body = document.createElement("tbody"), top = document.createElement("thead"), first = top.insertRow();
    for (const [name, kind] of head) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = name;
      if (kind) cell.className = kind;
      first.append(cell);
    }
    for (const row of rows) {
      const line = body.insertRow();
      row.forEach((value, place) => {
        const cell = line.insertCell();
        if (head[place][1]) cell.className = head[place][1];
        if (value instanceof Node) cell.append(value);
        else cell.textContent = value;
      });
    }
    const said = document.createElement("caption");
    said.textContent = caption;
    table.replaceChildren(said, ...(rows.length ? [top, body] : []));
  }

  // a run that goes on is described by what it did of late, one that is over by all of it
  const over = now => !["running", "paused"].includes(now.state);
  const current = (now, one) => over(now) ? one.whole : one.now;

  function facts(about, now) {
    const against = one => one.promised === null ? "no promise" : `${number(one.promised)} promised`;
    const lately = about.window === null ? `, last ${whole(now.last)}` : `, last ${about.window} s`, late = over(now) || now.last === null ? "" : lately;
    const shown = [
      [whole(now.updates), "updates", about.ends.updates ? `of ${whole(about.ends.updates)}` : ""],
      [Charts.duration(now.time), about.live ? (over(now) ? "run time" : now.state) : "virtual time", about.ends.time ? `of ${Charts.duration(about.ends.time)}` : ""],
      [number(current(now, now.throughput)), `updates per second${late}`, against(now.throughput)],
      [number(current(now, now.staleness)), `mean staleness${late}`, against(now.staleness)],
      [number(now.judged.accuracy), "accuracy", ""],
      [number(now.judged.test_loss), "test loss", ""],
      [whole(now.flying), "tasks in flight", now.concurrency === null ? "" : `of ${whole(now.concurrency)}`],
      [whole(now.present), "clients there", `of ${whole(about.count)}`],
    ];
    document.getElementById("facts").replaceChildren(...shown.map(([value, name, more]) => {
      const box = document.createElement("div"), strong = document.createElement("b");
      const said = document.createElement("span"), small = document.createElement("small");
      box.className = "fact";
      strong.textContent = value;
      said.textContent = name;
      small.textContent = more;
      box.append(strong, said, small);
      return box;
    }));
  }

  function answer(about, now) {
    const { updates, time, throughput, staleness, judged } = now;
    const against = one => one.promised === null ? "" : ` (${number(one.promised)} promised)`;
    const words = { running: "Running for", paused: "Paused after", stopped: "Stopped after", killed: "Killed after", ended: "Ended after" };
    const clock = about.live ? Charts.duration(time) : `${Charts.duration(time)} of virtual time`;
    const faults = Object.entries(now.faults).map(([kind, many]) => `${whole(many)} ${kind}`).join(", ");
    const parts = [`${words[now.state]} ${clock}: ${whole(updates)} updates`];
    const flow = current(now, throughput), stale = current(now, staleness);
    if (flow !== null) parts.push(`${number(flow)} per second${over(now) || now.last === null ? "" : " now"}${against(throughput)}`);
    if (stale !== null) parts.push(`mean staleness ${number(stale)}${against(staleness)}`);
    if (judged.accuracy !== null) parts.push(`accuracy ${number(judged.accuracy)}`);
    else if (judged.test_loss !== null) parts.push(`test loss ${number(judged.test_loss)}`);
    document.getElementById("answer").textContent = `${parts.join(", ")}. Faults: ${faults || "none"}.`;
    document.getElementById("faults").textContent = faults ? `${over(now) ? "In all" : "So far"}: ${faults}.`
      : `No task was lost, dropped or refused${over(now) ? "" : " so far"}.`;
  }

  function groups(now) {
    const all = now.groups, head = [["group", ""], ["clients there", "number"], ["in service", "number"],
      ["waiting or on the way", "number"], ["updates", "number"], ["share", "number"], ["promised", "number"],
      ["staleness", "number"], ["promised", "number"]];
    const rows = all.name.slice(0, 100).map((name, place) => [name, `${all.present[place]} of ${all.clients[place]}`,
      whole(all.serving[place]), whole(all.waiting[place]), whole(all.updates[place]), percent(all.share[place]),
      percent(all.share_promised[place]), number(all.staleness[place]), number(all.staleness_promised[place])]);
    const more = all.name.length > 100 ? ` The first 100 of ${all.name.length} groups.` : "";
    fill("groups", head, rows, `Share of updates and staleness since the plan in force took effect.${more}`);
  }

  function clients(about, now) {  // what the picture shows of each, for those who do not see it or have no mouse
    const each = now.clients, box = document.getElementById("clients-each");
    box.hidden = !each;
    if (!each || !box.open) return;
    const head = [["client", ""], ["group", ""], ["there", ""], ["in service", "number"], ["waiting or on the way", "number"]];
    const rows = about.clients.map((name, place) => [name, about.groups[about.group[place]], each.present[place] ? "yes" : "no",
      whole(each.serving[place]), whole(each.held[place] - each.serving[place])]);
    fill("clients", head, rows, "The tasks that each client holds.");
  }

  function range(row, least, most) {  // an interval as a line, its mean as a dot, what the fleet says as a mark
    const drawing = document.createElementNS(SVG, "svg");
    drawing.setAttribute("class", "range");
    drawing.setAttribute("viewBox", "0 0 200 20");
    drawing.setAttribute("aria-hidden", "true");
    const at = value => 6 + 188 * Math.log(Math.min(Math.max(value, least), most) / least) / Math.log(most / least);
    const add = (name, values) => {
      const part = document.createElementNS(SVG, name);
      for (const [key, value] of Object.entries(values)) part.setAttribute(key, value);
      drawing.append(part);
    };
    if (row.told !== null) add("line", { class: "told", x1: at(row.told), x2: at(row.told), y1: 1, y2: 19 });
    if (row.mean !== null && row.low !== null) add("line", { x1: at(row.low), x2: at(row.high === null ? most : row.high), y1: 10, y2: 10 });
    if (row.mean !== null) add("circle", { cx: at(row.mean), cy: 10, r: 4 });
    return drawing;
  }

  function speeds(about, now) {
    const rows = now.speeds.slice(0, 100);
    const ends = rows.flatMap(row => [row.low, row.high, row.told]).filter(one => one !== null && one > 0);
    const least = ends.length ? Math.min(...ends) / 1.2 : 1;
    const most = ends.length ? Math.min(Math.max(...ends), 1000 * least) * 1.2 : 10;
    const head = [[about.count > rows.length || about.count > 24 ? "group" : "client", ""], ["seconds per task", "number"],
      ["95% interval", "number"], ["the fleet says", "number"], ["tasks", "number"], ["", ""]];
    fill("speeds", head, rows.map(row => [row.name, number(row.mean), row.low === null ? "–" :
      `${number(row.low)} to ${number(row.high)}`, number(row.told), row.tasks === null ? "–" : String(Math.round(row.tasks)), range(row, least, most)]),
      "Dot: the mean as estimated; line: its interval; mark: what the fleet says; on a logarithmic scale.");
  }

  function plans(now) {
    const head = [["plan", "number"], ["at", "number"], ["updates before", "number"], ["tasks in flight", "number"],
      ["per second", "number"], ["staleness", "number"], ["why", "why"]];
    const rows = now.plans.slice().reverse().map(one => [String(one.number), Charts.duration(one.time), whole(one.step),
      String(one.concurrency), number(one.throughput), number(one.staleness), one.reason]);
    const many = now.plan_count, shown = rows.length < many ? `The newest ${rows.length} of ${many} plans` : "All plans";
    fill("plans", head, rows, many ? `${shown}, the one in force first, and what each promises.` : "Theory promises nothing here.");
  }

  function events(now) {
    const head = [["at", "number"], ["what", ""], ["client", ""], ["why", "why"]];
    const clock = at => at === null ? "–" : new Date(1000 * at).toLocaleTimeString("en-GB");
    const rows = now.events.slice().reverse().map(one => [clock(one.at), one.what, one.who === null ? "" : one.who, one.why]);
    fill("events", head, rows, rows.length ? "The newest lines of the log." : "This run keeps no log.");
  }

  function notes(about, now) {
    document.getElementById("notes").replaceChildren(...about.notes.concat(now.notes).map(one => {
      const said = document.createElement("p");
      said.className = "quiet";
      said.textContent = one;
      return said;
    }));
  }

  function show(about, now) {
    answer(about, now);
    facts(about, now);
    notes(about, now);
    groups(now);
    clients(about, now);
    speeds(about, now);
    plans(now);
    events(now);
  }

  return { show, clients };
})();
