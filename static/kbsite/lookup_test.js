// The lookup test page: copies what the model sees. Everything else works without this script.
const button = document.querySelector("[data-copy]");
const text = document.querySelector("[data-model]");
const status = document.querySelector("[data-status]");

async function copy() {
  try {
    await navigator.clipboard.writeText(text.textContent);
  } catch {
    // No clipboard outside a secure context: the selection does it.
    getSelection().selectAllChildren(text);
    document.execCommand("copy");
    getSelection().removeAllRanges();
  }
  status.textContent = button.dataset.copied;
  const use = button.querySelector("use");
  const before = use.getAttribute("href");
  use.setAttribute("href", before.replace(/#.*/, "#i-check"));
  setTimeout(() => { use.setAttribute("href", before); status.textContent = ""; }, 1600);
}

if (button && text) {
  button.hidden = false;
  button.addEventListener("click", copy);
}
