// Where answers come from: the server of this page. The token is kept for this tab alone, and travels in a header. Before
// each question the server proves that it knows the token: another program may have taken the port of one that has gone.
// Without an answer the token is kept in memory alone, since a page that is loaded then may come from somebody else.
const Source = (() => {
  const KEY = "sojourn-token", $ = id => document.getElementById(id), MOMENT = 500;  // milliseconds
  const STRANGER = "This is not the token of the server that answers here, so it was not sent";
  const BUSY = [429, 503];  // that passes, and the token is not to blame
  let token = null, opening = null, opened = null;
  try { token = sessionStorage.getItem(KEY); } catch { /* kept in memory alone */ }

  function door(why) {  // all who wait at it are let in together; why it is shut stays there until a token is given
    $("door").hidden = false;
    if (why) $("refusal").textContent = why;
    $("token").focus();
    return opening ??= new Promise(done => { opened = done; });
  }

  function entered() {  // the field with the focus goes away, so the focus moves on
    $("door").hidden = true;
    $("planner").hidden = false;
    $("example").focus();
  }

  function say(words) {
    $("connection").hidden = !words;
    $("connection").textContent = words;
  }

  function unkeep() {
    try { sessionStorage.removeItem(KEY); } catch { /* it was never there */ }
  }

  async function sent(path, body, used) {
    try {
      const proof = await Proof.ask(used);
      if (BUSY.includes(proof.answer.status)) return proof.answer;
      if (!proof.right) return new Response(STRANGER, { status: 401 });
      return await fetch(path, {
        method: body === undefined ? "GET" : "POST", body, cache: "no-store", headers: { Authorization: `Bearer ${used}` },
      });
    } catch {
      setTimeout(unkeep, MOMENT);  // not if the reader is just leaving
      throw new Error("The server does not answer; start it again.");
    }
  }

  async function asked(path, body) {
    for (;;) {
      if (token === null) await door("");
      const used = token, answer = await sent(path, body, used);
      if (answer.status === 401) {
        const why = (await answer.text()).trim();
        if (token !== used) continue;  // a better one has been given meanwhile
        token = null;
        unkeep();
        await door(`${why}.`);
      } else if (BUSY.includes(answer.status)) {
        unkeep();
        say(`The server cannot answer now (${(await answer.text()).trim()}), trying again.`);
        await new Promise(done => setTimeout(done, 1000 * (Number(answer.headers.get("Retry-After")) || 1)));
        say("");
      } else {
        try { sessionStorage.setItem(KEY, used); } catch { /* a reload will ask again */ }
        if (!$("door").hidden && token === used) entered();
        return answer;
      }
    }
  }

  $("ask").addEventListener("submit", event => {
    event.preventDefault();
    token = $("token").value.trim();
    $("token").value = "";
    $("refusal").textContent = "";
    opening = null;
    if (opened) opened();
  });

  async function replied(path, content) {  // an answer or a refusal; anything else is a fault of the server
    const answer = await asked(path, content === undefined ? undefined : JSON.stringify(content));
    if (answer.ok || answer.status === 400) return answer;
    throw new Error(`The server could not answer that (${answer.status} ${answer.statusText}).`);
  }

  const json = async (path, content) => (await replied(path, content)).json();

  return {
    free: true,
    start: () => json("/api/start"),
    answer: question => json("/api/answer", question),
    read: file => json("/api/read", file),
    plan: async question => {
      const answer = await replied("/api/plan", question);
      if (!answer.ok) throw new Error((await answer.json()).error);
      return answer.text();
    },
  };
})();
