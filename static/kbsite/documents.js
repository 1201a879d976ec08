// The lines above the document list: ask for the counts while vectors or the model's texts are on their way, and show
// the list anew at the end of either.
const box = document.getElementById("progress");
const model = document.getElementById("model-progress");

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function show(counts) {
  box.querySelector("[data-indexed]").textContent = counts.indexed;
  box.querySelector("[data-total]").textContent = counts.total;
  const bar = box.querySelector("progress");
  bar.max = counts.total;
  bar.value = counts.indexed;
  box.querySelector("[data-current]").textContent = counts.current.join(" · ");
  const written = model?.querySelector("[data-written]");
  if (!written) return;
  written.textContent = counts.model.written;
  model.querySelector("[data-model-total]").textContent = counts.model.total;
}

async function follow() {
  let vectors = Number(box.dataset.waiting);
  let texts = Number(model?.dataset.waiting ?? 0);
  while (vectors > 0 || texts > 0) {
    await wait(document.hidden ? 10000 : 2000);
    let counts;
    try {
      const answer = await fetch(box.dataset.url, { headers: { Accept: "application/json" } });
      if (!answer.ok) return;
      counts = await answer.json();
    } catch {
      continue; // the server restarts: ask again
    }
    show(counts);
    const ended = (vectors > 0 && counts.waiting === 0) || (texts > 0 && counts.model.waiting === 0);
    vectors = counts.waiting;
    texts = model ? counts.model.waiting : 0;
    if (ended) break;
  }
  const editing = document.querySelector("#result_list input:checked, #searchbar:focus");
  if (!editing) location.reload();
}

if (box && (Number(box.dataset.waiting) > 0 || Number(model?.dataset.waiting ?? 0) > 0)) follow();
