// Logging in: the token is said once, and what the browser keeps of it is a cookie that no script reads.
const wrong = document.getElementById("wrong"), token = document.getElementById("token");

document.getElementById("login").addEventListener("submit", async (e) => {
  e.preventDefault();
  wrong.hidden = true;
  let answer;
  try {
    answer = await fetch("/login", { method: "POST", body: JSON.stringify({ token: token.value.trim() }) });
  } catch {
    answer = new Response("the scheduler cannot be reached", { status: 503 });
  }
  if (answer.ok) return location.reload(); // to the view that was asked for
  wrong.textContent = (await answer.text()).trim();
  wrong.hidden = false;
  token.select();
});
token.focus();
