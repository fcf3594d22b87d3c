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
    if (!(key in fleet.sides) || place < 0 || correction < 0) {
      throw new Error("this page has no answer for that; take a step of the sliders");
    }
    return { fleet, room, key, place, correction, time: fleet.times[place] };
  }

  function side(fleet, key, correction, time) {
    const one = cloned(fleet.sides[key]);
    return { ...one, correction, updates: one.throughput * time };
  }

  async function answer(question) {
    try {
      const { fleet, room, key, place, correction, time } = found(question);
      const [ratio, word] = fleet.losses[key][correction][place];
      return {
        clients: fleet.clients, time, tasks_to_try: room, times_to_try: fleet.times, groups: fleet.rows,
        yours: side(fleet, key, question.correction, time),
        recommended: side(fleet, fleet.recommended.key, fleet.recommended.correction, time),
        loss: { ratio, word }, notes: fleet.notes[key][place].map(one => table.sentences[one]),
      };
    } catch (error) {
      return { error: error.message, field: "question" };
    }
  }

  async function plan(question) {  // the decisions of the plan file, with the promises for this budget
    const { fleet, key, time } = found(question);
    const wanted = question.which === "recommended";
    const made = cloned(fleet.plans[wanted ? fleet.recommended.key : key]);
    made.correction = wanted ? fleet.recommended.correction : question.correction;
    made.objective = wanted ? fleet.recommended.objective : null;
    made.promises.time = time;
    made.promises.steps = made.promises.throughput * time;
    return `${JSON.stringify(made, null, 2)}\n`;
  }

  return { free: false, start: async () => ({ fleets: table.fleets }), answer, plan };
})();
