// The connection: asks for the token, reads the events of the run, comes back after a break, and sends what is asked.
// The token is kept for this tab alone (sessionStorage) and travels in a header, so that no address and no log has it. It
// is sent to nobody who has not proved to know it. Without a connection it is kept in memory alone: a page that is loaded
// then may come from somebody else.
(() => {
  const $ = id => document.getElementById(id), KEY = "sojourn-token", PAPER = 330;  // pixels of a chart on paper
  const pages = { about: null, now: null, over: false };
  let token = null, tries = 0, reading = null, timer = null;
  try { token = sessionStorage.getItem(KEY); } catch { /* kept in memory alone */ }

  function door(why) {
    $("door").hidden = false;
    $("refusal").textContent = why;
    $("token").focus();
  }

  function say(words) {
    $("connection").hidden = !words;
    $("connection").textContent = words;
  }

  function headers() { return { Authorization: `Bearer ${token}` }; }

  function unkeep() {
    try { sessionStorage.removeItem(KEY); } catch { /* it was never there */ }
  }

  function wrong(why) {
    token = null;
    unkeep();
    say("");
    door(why);
  }

  // Only a wrong token is for the reader to mend. Whatever else the server refuses for is asked again with the same one.
  async function refused(answer) {
    const why = (await answer.text()).trim();
    if (answer.status !== 401) return later(`The server cannot answer now (${why}), trying again.`, answer);
    wrong(`${why}.`);
  }

  async function connect() {
    clearTimeout(timer);
    const mine = reading = new AbortController();
    try {
      const proof = await Proof.ask(token, mine.signal);
      if (mine.signal.aborted) return;
      if (!proof.answer.ok) return await refused(proof.answer);
      if (!proof.right) return wrong("This is not the token of the server that answers here, so it was not sent.");
      const answer = await fetch("/api/events", { headers: headers(), signal: mine.signal, cache: "no-store" });
      if (!answer.ok) return await refused(answer);
      try { sessionStorage.setItem(KEY, token); } catch { /* a reload will ask again */ }
      $("door").hidden = true;
      $("token").value = "";
      tries = 0;
      say("");
      await read(answer.body.getReader());
    } catch (error) {
      if (mine.signal.aborted) return;
    }
    if (mine === reading) lost();
  }

  function lost() {
    const ended = pages.now && pages.now.state === "ended";
    if (ended && pages.over) say("The server has gone, since the run has ended. This is how it ended.");
    else later("Lost the connection to the server, trying again.");
  }

  function later(words, answer) {  // the server may say how many seconds to wait
    tries += 1;
    if (tries > 1) unkeep();  // at the first time the reader may just be leaving
    say(words);
    setControls(null);
    const asked = 1000 * Number(answer && answer.headers.get("Retry-After")) || 0;
    timer = setTimeout(connect, Math.max(asked, Math.min(5000, 500 * tries)));
  }

  async function read(reader) {
    const words = new TextDecoder();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += words.decode(value, { stream: true });
      const events = rest.split("\n\n");
      rest = events.pop();
      events.forEach(heard);
    }
  }

  function heard(text) {
    const found = /^event: (\w+)\ndata: (.*)$/.exec(text);
    if (!found) return;  // the server only says that it is still there
    const [, name, data] = found;
    if (name === "bye") pages.over = true;
    else {
      pages[name] = JSON.parse(data);
      pages.over = false;
      if (pages.about && pages.now) show();
    }
  }

  function show() {
    const { about, now } = pages;
    if (now.error) return say(`The run cannot be read: ${now.error}`);
    say("");
    document.title = `${now.state}: ${about.name}`;
    document.querySelector("header.top h1").textContent = `${about.live ? "Live run" : "Simulated run"} in ${about.name}`;
    $("state").hidden = false;
    $("state").textContent = now.state;
    $("state").className = `badge ${now.state}`;
    $("run").hidden = false;
    Tables.show(about, now);
    Network.show(about, now);
    charts(now);
    setControls(now.controls);
  }

  function charts(now) {
    const { history, curves } = now, promise = name => ({ label: "promised", colour: "--series-2", promise: true, name });
    const dots = curves.at.length < 60;
    Charts.draw("staleness-chart", "Staleness", [{ label: "observed", colour: "--series-1" }, promise()],
      [history.at, history.staleness, history.staleness_promised]);
    Charts.draw("throughput-chart", "Updates per second", [{ label: "observed", colour: "--series-1" }, promise()],
      [history.at, history.throughput, history.throughput_promised]);
    Charts.draw("accuracy-chart", "Accuracy", [{ label: "accuracy", colour: "--series-3", points: dots }],
      [curves.at, curves.accuracy], () => [0, 1]);
    Charts.draw("loss-chart", "Loss", [{ label: "test", colour: "--series-1", points: dots },
      { label: "training", colour: "--series-4", points: dots }], [curves.at, curves.test_loss, curves.train_loss]);
  }

  function setControls(controls) {
    $("controls").hidden = !(pages.about && pages.about.controls);
    const off = !controls || controls.over;
    $("pause").disabled = $("stop").disabled = off;
    $("replan").disabled = off || controls.never_replans !== null;
    $("replan").hidden = !(pages.about && pages.about.live);  // simulated training keeps its plan
    $("replan").title = controls && controls.never_replans || "";
    $("pause").textContent = controls && controls.paused ? "Go on" : "Pause";
    $("pause").dataset.does = controls && controls.paused ? "go_on" : "pause";
  }

  const DONE = {
    pause: "No new tasks are sent. When those in flight are back, the clock stands still.", go_on: "Tasks are sent again.",
    replan: "The plan is being worked out again.", stop: "The server stops. The run can be resumed.",
  };
  const TRAINING = {
    pause: "Training waits, and its clock stands still.", go_on: "Training goes on.",
    stop: "Training stops with a checkpoint. The run can be resumed.",
  };

  async function ask(name) {
    try {
      if (!(await Proof.ask(token)).right) throw new Error("a stranger answers");
      const answer = await fetch("/api/control", {
        method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body: JSON.stringify({ do: name }),
      });
      if (answer.ok) $("done").textContent = (pages.about.live ? DONE : TRAINING)[name];
      else $("done").textContent = answer.status === 409 ? (await answer.json()).error : (await answer.text()).trim();
    } catch {
      $("done").textContent = "The server does not answer.";
    }
  }

  $("ask").addEventListener("submit", event => {
    event.preventDefault();
    token = $("token").value.trim();
    $("refusal").textContent = "";
    if (reading) reading.abort();
    connect();
  });
  $("pause").addEventListener("click", () => ask($("pause").dataset.does));
  $("replan").addEventListener("click", () => ask("replan"));
  $("stop").addEventListener("click", () => {  // asks once more, for it ends the server
    if ($("stop").classList.toggle("sure")) {
      $("stop").textContent = "Really stop?";
      setTimeout(() => { $("stop").classList.remove("sure"); $("stop").textContent = "Stop"; }, 5000);
    } else {
      $("stop").textContent = "Stop";
      ask("stop");
    }
  });
  $("clients-each").addEventListener("toggle", () => { if (pages.about && pages.now) Tables.clients(pages.about, pages.now); });
  const again = () => { Charts.again(); Network.again(); };
  $("theme").addEventListener("click", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  // Paper is light, and two charts share its width. A canvas keeps what was drawn, so it is drawn anew for the paper.
  const root = document.documentElement;
  let theme = null;
  addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    Charts.again(PAPER);
    Network.again();
  });
  addEventListener("afterprint", () => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    again();
  });
  if (token) connect();
  else door("");
})();
