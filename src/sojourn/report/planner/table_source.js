// Where answers come from: a table that was computed beforehand and stands in this page. It needs no server.
const Source = (() => {
  const table = JSON.parse(document.getElementById("answers").textContent);
  const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
  const cloned = thing => JSON.parse(JSON.stringify(thing));

  function found(question) {
    const fleet = table.fleets.find(one => same(one.groups, question.groups));
    const cap = question.cap, time = question.time ?? fleet.times[fleet.first];
    const room = fleet.tasks.filter(many => cap === null || many <= cap * fleet.clients);
    const tasks = Number(question.concurrency ?? fleet.clients);
    const place = fleet.times.indexOf(Number(time)), correction = table.corrections.indexOf(question.correction);
    const key = `${cap}|${tasks}|${question.sampling}`;
    if (!(key in fleet.entries) || place < 0 || correction < 0) {
      throw new Error("this page has no answer for that; take a step of the sliders");
    }
    return { fleet, room, key, place, correction, time: fleet.times[place] };
  }

  function side(fleet, key, correction, time) {
    const one = cloned(fleet.entries[key].side);
    return { ...one, correction, updates: one.throughput * time };
  }

  async function answer(question) {
    try {
      const { fleet, room, key, place, correction, time } = found(question);
      const [ratio, word] = fleet.entries[key].losses[correction][place];
      return {
        clients: fleet.clients, time, tasks_to_try: room, times_to_try: fleet.times, groups: fleet.rows,
        yours: side(fleet, key, question.correction, time),
        recommended: side(fleet, fleet.recommended.key, fleet.recommended.correction, time),
        loss: { ratio, word }, notes: fleet.entries[key].notes[place].map(one => table.sentences[one]),
      };
    } catch (error) {
      return { error: error.message, field: "question" };
    }
  }

  async function plan(question) {  // a plan file, put together for this budget
    const { fleet, key, time } = found(question), wanted = question.which === "recommended";
    const { side, plan: decided } = fleet.entries[wanted ? fleet.recommended.key : key], made = cloned(fleet.plan);
    Object.assign(made, {
      concurrency: side.concurrency, cap: side.cap,
      correction: wanted ? fleet.recommended.correction : question.correction,
      objective: wanted ? fleet.recommended.objective : null,
    });
    made.groups.forEach((group, place) => { group.sampling = decided.sampling[place]; });
    Object.assign(made.promises, decided.promises, { time, steps: decided.promises.throughput * time });
    return `${JSON.stringify(made, null, 2)}\n`;
  }

  return { free: false, start: async () => ({ fleets: table.fleets }), answer, plan };
})();
