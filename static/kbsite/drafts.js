// The drafts page: shows itself anew when the model has written. Everything else works without this script.
const box = document.querySelector("[data-busy]");
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function follow() {
  for (;;) {
    await wait(document.hidden ? 10000 : 2000);
    let state;
    try {
      const answer = await fetch(box.dataset.busy, { headers: { Accept: "application/json" } });
      if (!answer.ok) return;
      state = await answer.json();
    } catch {
      continue; // the server restarts: ask again
    }
    if (!state.busy) break;
  }
  location.reload();
}

if (box) follow();

for (const close of document.querySelectorAll("[data-close]")) {
  close.addEventListener("click", (event) => {
    event.preventDefault();
    close.closest(".k-toast").remove();
  });
}
