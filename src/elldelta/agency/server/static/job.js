// Watches a job: moves its bar, and loads the page again when it has ended. Without it, the page reloads by itself.
"use strict";

(() => {
  const box = document.querySelector("[data-job]");
  if (!box) return;
  const bar = box.querySelector("progress");
  const step = box.querySelector("[data-job-step]");
  let pause = 700; // milliseconds; grows, so that a long job is not asked about too often

  async function look() {
    try {
      const answer = await fetch(box.dataset.job, {
        credentials: "same-origin",
        headers: { Accept: "application/json" },
      });
      if (answer.status === 401 || answer.status === 404) {
        location.reload();
        return;
      }
      if (answer.ok) {
        const job = await answer.json();
        if (job.status === "done" || job.status === "failed") {
          location.reload();
          return;
        }
        bar.value = job.progress;
        if (step.textContent !== job.step) step.textContent = job.step;
      }
    } catch {
      // the service may be starting again; look later
    }
    pause = Math.min(5000, pause * 1.2);
    setTimeout(look, pause);
  }

  setTimeout(look, pause);
})();
