// Shows what a wish costs while somebody types. All sentences are in the page; this fills in numbers and
// chooses between them. Without it, the button "What would it cost?" asks the server for the same.
"use strict";

(() => {
  const form = document.getElementById("wish");
  const box = document.getElementById("cost");
  if (!form || !box) return;
  const PAUSE = 350; // milliseconds without a key before the server is asked
  const FIELDS = ["ell", "releases", "records"];
  const MAYBE = ["owners", "delta", "waiting_risk"];
  let waiting = 0;
  let running = null;
  let shown = "";

  document.getElementById("ask-cost").hidden = true;

  const group = (number) => Number(number).toLocaleString("en-US");
  const small = (number) => String(Number(Number(number).toPrecision(3)));

  function fill(texts) {
    for (const [name, text] of Object.entries(texts)) {
      for (const place of box.querySelectorAll(`[data-fill="${name}"]`)) place.textContent = text;
    }
  }

  function choose(chosen) {
    for (const part of box.querySelectorAll("[data-when]")) part.hidden = !chosen.includes(part.dataset.when);
  }

  function showCost(cost) {
    const paper = cost.paper;
    const possible = paper.fewest_records !== null;
    fill({
      records: group(cost.records),
      failure: cost.failure_after_linkage === null ? "" : small(cost.failure_after_linkage),
      fewest: possible ? group(paper.fewest_records) : "",
      classes: paper.classes === null ? "" : group(paper.classes),
      sharp: cost.sharp_classes === null ? "" : group(cost.sharp_classes),
    });
    const chosen = ["cost", possible ? "possible" : "impossible"];
    chosen.push(cost.failure_after_linkage === null ? "certain" : "chance");
    if (paper.classes !== null) chosen.push("classes");
    else if (possible) chosen.push(paper.is_searched ? "none" : "unsearched");
    if (cost.sharp_classes !== null) chosen.push("sharp");
    choose(chosen);
  }

  function showProblem(error) {
    fill({ problem: error.problem, found: error.found, remedy: error.remedy });
    choose(["problem"]);
  }

  async function ask() {
    const given = (field) => field.value.trim() !== "";
    const maybe = MAYBE.map((name) => form.elements[name]).filter((field) => given(field) || !field.validity.valid);
    // Owners who share a ledger stand in place of t.
    const needed = FIELDS.filter((name) => name !== "releases" || !given(form.elements.owners));
    const fields = [...needed.map((name) => form.elements[name]), ...maybe];
    if (fields.some((field) => !given(field) || !field.validity.valid)) {
      shown = "";
      choose(["empty"]);
      return;
    }
    const query = new URLSearchParams(fields.map((field) => [field.name, field.value.trim()])).toString();
    if (query === shown) return;
    if (running) running.abort();
    const own = new AbortController();
    running = own;
    box.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(`${form.dataset.cost}?${query}`, {
        signal: own.signal,
        credentials: "same-origin",
        headers: { Accept: "application/json" },
      });
      const document_ = await answer.json();
      if (answer.ok) showCost(document_);
      else showProblem(document_.error);
      shown = query;
    } catch (problem) {
      if (problem.name === "AbortError") return;
      showProblem({ problem: "The service cannot be reached.", found: "", remedy: "Try again in a moment." });
    } finally {
      if (running === own) {
        running = null;
        box.removeAttribute("aria-busy");
      }
    }
  }

  form.addEventListener("input", (event) => {
    if (![...FIELDS, ...MAYBE].includes(event.target.name)) return;
    clearTimeout(waiting);
    waiting = setTimeout(ask, PAUSE);
  });
})();
