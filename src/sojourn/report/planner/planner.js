// The page: reads the controls, asks, and shows the newest answer. An old answer never replaces a newer one. After a
// refusal the last answer stays, with the sentence beside the field that it is about; that of another fleet goes away.
(() => {
  const { number, percent, duration, element, fill, bars } = Drawing, $ = id => document.getElementById(id);
  const FIELDS = ["cap", "concurrency", "sampling", "correction", "time", "fleet", "file", "question"];
  const TYPING = 200;  // milliseconds of quiet after which a typed value counts
  let fleets = [], last = null, steps = { tasks: [], times: [] }, newest = 0, drops = 0, busy = false, again = false, timer = null;
  let fresh = true;  // the fleet is another one than that of the last answer

  const capName = cap => cap === null ? "none" : String(cap);
  const samplingName = name => SETTINGS.samplings[name] ?? name;

  function options(select, values, named) {
    select.replaceChildren(...values.map(value => {
      const made = element("option", named(value));
      made.value = JSON.stringify(value);
      return made;
    }));
  }

  function question() {
    const asked = { groups: FleetTable.rows() };
    for (const key of ["cap", "sampling", "correction"]) asked[key] = JSON.parse($(key).value);
    if ($("concurrency").value.trim() !== "") asked.concurrency = $("concurrency").value.trim();
    if ($("time").value.trim() !== "") asked.time = $("time").dataset.exact ? Number($("time").dataset.exact) : $("time").value.trim();
    return asked;
  }

  function refuse(field, sentence) {
    for (const one of FIELDS) {
      const said = one === field ? sentence : "";
      if (one === "fleet") FleetTable.mark(said);
      else $(`${one}-error`).textContent = said;
      if ($(one) && one !== "fleet") $(one).setAttribute("aria-invalid", String(Boolean(said)));
    }
    for (const one of ["answer", "numbers", "pictures"]) $(one).classList.toggle("old", Boolean(sentence));
  }

  // One question is under way at a time; what changes meanwhile is asked when its answer is there.
  async function ask() {
    clearTimeout(timer);
    if (busy) { again = true; return; }
    busy = true;
    const mine = newest += 1;
    try {
      const answer = await Source.answer(question());
      if (mine === newest && !again) heard(answer);
      connection("");
    } catch (error) {
      if (fresh) forget();
      connection(`${error.message} To ask once more, change something here.`);
    } finally {
      busy = false;
    }
    if (again) { again = false; ask(); }
  }

  function connection(words) {
    if (!$("connection")) return;
    $("connection").hidden = !words;
    $("connection").textContent = words;
  }

  function heard(answer) {
    if (answer.error) {
      refuse(answer.field, answer.error);
      if (fresh) forget();
      return usable(false);
    }
    refuse("", "");
    usable(true);
    fresh = false;
    last = answer;
    steps = { tasks: answer.tasks_to_try, times: answer.times_to_try };
    slider("tasks-slider", steps.tasks, answer.yours.concurrency, number);
    slider("time-slider", steps.times, answer.time, duration);
    if (document.activeElement !== $("concurrency")) $("concurrency").value = answer.yours.concurrency;
    if (document.activeElement !== $("time")) {
      $("time").value = duration(answer.time);
      $("time").dataset.exact = answer.time;
    }
    show(answer);
  }

  function usable(whether) {  // the buttons that take the policy, or the recommended one, from the answer
    for (const one of ["download", "download-recommended", "take"]) $(one).disabled = !whether;
  }

  function forget() {  // an answer that belongs to another fleet
    last = null;
    for (const one of ["answer", "numbers", "notes", "pictures", "by-group", "differs"]) $(one).replaceChildren();
    $("differs").hidden = $("differs-not").hidden = true;
    usable(false);
  }

  function slider(id, values, value, said) {
    const place = values.reduce((best, one, at) => Math.abs(one - value) < Math.abs(values[best] - value) ? at : best, 0);
    $(id).max = Math.max(values.length - 1, 0);
    if (document.activeElement !== $(id)) $(id).value = place;
    $(id).setAttribute("aria-valuetext", said(value));
  }

  function show(answer) {
    const { yours, recommended, loss } = answer;
    const ratio = (mine, theirs) => theirs > 0 ? `×\u00a0${number(mine / theirs, 3)}` : "–";
    const line = (name, key, said = number) => [name, said(yours[key]), said(recommended[key]), ratio(yours[key], recommended[key])];
    fill($("numbers"), ["", "yours", "recommended", "ratio"], [
      line("updates per second", "throughput"),
      line(`updates in ${duration(answer.time)}`, "updates"),
      line("mean staleness", "staleness"),
      line("staleness of the stalest clients", "stalest"),
      line("idle clients", "idle"),
      line("tasks that wait", "waiting"),
      ["expected loss, relative", lossShort(loss), "1", loss.ratio === null ? "–" : `×\u00a0${number(loss.ratio, 2)}`],
    ], `${number(answer.clients)} clients; the ratio is yours to recommended`);
    $("answer").textContent = sentence(answer);
    for (const one of document.querySelectorAll(".budget")) one.textContent = String(answer.time);
    $("notes").replaceChildren(...answer.notes.map(one => element("p", one, one.startsWith("Warning") ? "note" : "quiet")));
    pictures(answer);
    differences(answer);
  }

  function lossShort(loss) {
    const words = { same: "the same", tie: "a tie", floor: "a tie, at the floor", diverges: "learns nothing", unknown: "unknown" };
    return words[loss.word] ?? `about ${number(loss.ratio, 2)}`;
  }

  function sentence({ yours, recommended, loss, time }) {
    const times = number(yours.updates / recommended.updates, 2), many = times === "1" ? "as many" : `${times} times as many`;
    const first = `Your policy brings in ${number(yours.updates)} updates in ${duration(time)}` +
      (loss.word === "same" ? "." : `, ${many} as the recommended plan.`);
    const idle = ` ${number(yours.idle, 3)} clients are idle on average, ${number(yours.waiting, 3)} tasks wait.`;
    const said = {
      same: " It is the recommended plan.",
      tie: " By the model of training its loss is a tie with the recommended plan's.",
      floor: " By the model of training both reach the floor of the loss in this time.",
      higher: ` By the model of training it ends at about ${number(loss.ratio, 2)} times the loss of the recommended plan.`,
      lower: ` By the model of training it ends at about ${number(loss.ratio, 2)} times the loss of the recommended plan.`,
      diverges: " By the model of training it learns nothing in this time.",
      unknown: " The model of training has no prediction for it.",
    };
    return first + idle + said[loss.word];
  }

  function pictures({ groups, yours, recommended }) {
    const names = groups.map(one => one.name);
    const values = (side, key) => side.by_group.map(one => one[key]);
    const drawn = [["Mean staleness", "staleness", number], ["Share of updates", "share", percent], ["Idle clients", "idle", number]];
    $("pictures").replaceChildren(...drawn.map(([title, key, said]) =>
      bars(title, names, values(yours, key), values(recommended, key), value => said(value, 3))));
    const rows = groups.map((group, place) => {
      const mine = yours.by_group[place], theirs = recommended.by_group[place];
      return [group.name, number(group.count), number(mine.staleness), number(theirs.staleness), percent(mine.share),
        percent(theirs.share), number(mine.idle, 3), number(theirs.idle, 3)];
    });
    fill($("by-group"), ["group", "clients", "staleness", "recommended", "share", "recommended", "idle", "recommended"], rows,
      "By group: yours, and the recommended plan's");
  }

  function differences({ yours, recommended }) {
    const shown = { cap: capName, concurrency: number, sampling: samplingName, correction: value => String(value) };
    const rows = Object.entries(shown).filter(([key]) => yours[key] !== recommended[key])
      .map(([key, said]) => [key, said(yours[key]), said(recommended[key])]);
    $("differs").hidden = !rows.length;
    $("differs-not").hidden = Boolean(rows.length);
    fill($("differs"), ["", "yours", "recommended"], rows, "Decisions");
  }

  async function download(which) {
    try {
      const text = await Source.plan({ ...question(), ...(which ? { which } : {}) });
      const link = element("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = "plan.json";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    } catch (error) {
      refuse("question", error.message);
    }
  }

  async function read(file) {
    let text;
    try {
      text = await file.text();
    } catch {
      return { error: `${file.name} cannot be read; take a file and not a folder, and one that is still there` };
    }
    try {
      return await Source.read({ name: file.name, text });
    } catch (error) {
      return { error: `${error.message} Then take the file once more.` };
    }
  }

  function refuseFile(sentence) {
    const before = last ? ` The answer below still belongs to ${JSON.parse($("example").value)}.` : "";
    refuse("file", `${sentence}${/[.?]$/.test(sentence) ? "" : "."}${before}`);
    usable(false);
  }

  async function dropped(file) {  // the newest one counts
    if (!file) return;
    const mine = drops += 1;
    if (file.size > SETTINGS.most_bytes) {
      const size = one => `${number(one / 1e6, 3)} MB`;
      return refuseFile(`a file must have at most ${size(SETTINGS.most_bytes)}, got ${size(file.size)}; leave out rows or columns`);
    }
    const found = await read(file);
    if (mine !== drops) return;  // another fleet has been chosen meanwhile
    if (found.error) return refuseFile(found.error);
    fleets = fleets.filter(one => one.name !== found.name);
    fleets.unshift({ name: found.name, about: found.kind === "log" ? "Fitted to a log." : "", groups: found.groups });
    options($("example"), fleets.map(one => one.name), name => name);
    $("file-notes").replaceChildren(...found.notes.map(one => element("p", one)));
    take(fleets[0]);
  }

  function take(fleet) {
    $("example").value = JSON.stringify(fleet.name);
    $("example-about").textContent = fleet.about;
    FleetTable.set(fleet.groups);
    $("concurrency").value = "";
    $("time").value = "";
    delete $("time").dataset.exact;
    fresh = true;
    ask();
  }

  function listen() {
    for (const id of ["cap", "sampling", "correction"]) $(id).addEventListener("change", ask);
    $("cap").addEventListener("change", () => {
      const cap = JSON.parse($("cap").value), places = cap === null ? Infinity : cap * (last ? last.clients : Infinity);
      if (Number($("concurrency").value) > places) $("concurrency").value = places;
    }, { capture: true });
    $("tasks-slider").addEventListener("input", () => {
      $("concurrency").value = steps.tasks[$("tasks-slider").value];
      ask();
    });
    $("time-slider").addEventListener("input", () => {
      const time = steps.times[$("time-slider").value];
      $("time").value = duration(time);
      $("time").dataset.exact = time;
      ask();
    });
    for (const id of ["concurrency", "time"]) {
      $(id).readOnly = !Source.free;
      $(id).addEventListener("input", () => {
        delete $(id).dataset.exact;
        clearTimeout(timer);
        timer = setTimeout(ask, TYPING);
      });
    }
    FleetTable.onChange(typed => {
      clearTimeout(timer);
      timer = setTimeout(ask, typed ? TYPING : 0);
    });
    $("policy").addEventListener("submit", event => { event.preventDefault(); ask(); });
    $("example").addEventListener("change", () => {
      drops += 1;
      $("file-notes").replaceChildren();
      take(fleets.find(one => one.name === JSON.parse($("example").value)));
    });
    $("file").addEventListener("change", () => dropped($("file").files[0]));
    for (const name of ["dragover", "dragleave", "drop"]) {
      $("drop").addEventListener(name, event => {
        event.preventDefault();
        $("drop").classList.toggle("over", name === "dragover");
        if (name === "drop") dropped(event.dataTransfer.files[0]);
      });
    }
    $("download").addEventListener("click", () => download());
    $("download-recommended").addEventListener("click", () => download("recommended"));
    $("take").addEventListener("click", () => {
      if (!last) return;
      for (const key of ["cap", "sampling", "correction"]) $(key).value = JSON.stringify(last.recommended[key]);
      $("concurrency").value = last.recommended.concurrency;
      ask();
    });
  }

  async function begin() {
    options($("cap"), SETTINGS.caps, cap => cap === null ? "none: tasks queue" : cap === 1 ? "1: nobody waits" : String(cap));
    options($("sampling"), Object.keys(SETTINGS.samplings), samplingName);
    options($("correction"), SETTINGS.corrections, one => ({ 0: "0: none", 0.5: "1/2", 1: "1: unbiased" })[one]);
    $("cap").value = "null";
    $("correction").value = "0";
    listen();
    fleets = (await Source.start()).fleets;
    $("planner").hidden = false;
    options($("example"), fleets.map(one => one.name), name => name);
    take(fleets[0]);
  }

  begin().catch(error => connection(`${error.message} Then reload this page.`));
})();
