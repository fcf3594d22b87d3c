// Where answers come from: the server of this page. The token is kept for this tab alone, and travels in a header.
const Source = (() => {
  const KEY = "sojourn-token", $ = id => document.getElementById(id);
  let token = null, opened = null;
  try { token = sessionStorage.getItem(KEY); } catch { /* kept in memory alone */ }

  function door(why) {
    $("door").hidden = false;
    $("refusal").textContent = why;
    $("token").focus();
    return new Promise(done => { opened = done; });
  }

  function entered() {  // the field with the focus goes away, so the focus moves on
    $("door").hidden = true;
    $("planner").hidden = false;
    $("example").focus();
  }

  async function asked(path, body, signal) {
    for (;;) {
      if (token === null) await door("");
      const answer = await fetch(path, {
        method: body === undefined ? "GET" : "POST", body, signal, cache: "no-store",
        headers: { Authorization: `Bearer ${token}` },
      });
      if (answer.status === 401 || answer.status === 429) {
        const why = (await answer.text()).trim();
        if (answer.status === 401) token = null;
        try { sessionStorage.removeItem(KEY); } catch { /* it was never there */ }
        await door(`${why}.`);
        continue;
      }
      try { sessionStorage.setItem(KEY, token); } catch { /* a reload will ask again */ }
      if (!$("door").hidden) entered();
      return answer;
    }
  }

  $("ask").addEventListener("submit", event => {
    event.preventDefault();
    token = $("token").value.trim();
    $("token").value = "";
    if (opened) opened();
  });

  const json = async (path, content, signal) =>
    (await asked(path, content === undefined ? undefined : JSON.stringify(content), signal)).json();

  return {
    free: true,
    start: () => json("/api/start"),
    answer: (question, signal) => json("/api/answer", question, signal),
    read: file => json("/api/read", file),
    plan: async question => {
      const answer = await asked("/api/plan", JSON.stringify(question));
      if (!answer.ok) throw new Error((await answer.json()).error);
      return answer.text();
    },
  };
})();
