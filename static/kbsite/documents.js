// The bar above the document list: asks for the counts while vectors are on their way, and shows the list anew at the end.
const box = document.getElementById("progress");

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function follow() {
  let waiting = Number(box.dataset.waiting);
  while (waiting > 0) {
    await wait(document.hidden ? 10000 : 2000);
    let counts;
    try {
      const answer = await fetch(box.dataset.url, { headers: { Accept: "application/json" } });
      if (!answer.ok) return;
      counts = await answer.json();
    } catch {
      continue; // the server restarts: ask again
    }
    box.querySelector("[data-indexed]").textContent = counts.indexed;
    box.querySelector("[data-total]").textContent = counts.total;
    const bar = box.querySelector("progress");
    bar.max = counts.total;
    bar.value = counts.indexed;
    box.querySelector("[data-current]").textContent = counts.current.join(" · ");
    waiting = counts.waiting;
  }
  const editing = document.querySelector("#result_list input:checked, #searchbar:focus");
  if (!editing) location.reload();
}

if (box && Number(box.dataset.waiting) > 0) follow();
