// The login page sends the token once. The server answers with a cookie that scripts cannot read.
const wrong = document.getElementById("wrong"), token = document.getElementById("token");

document.getElementById("login").addEventListener("submit", async (e) => {
  e.preventDefault();
  wrong.hidden = true;
  let answer;
  try {
    answer = await fetch("/login", { method: "POST", body: JSON.stringify({ token: token.value.trim() }) });
  } catch {
    answer = new Response("The scheduler cannot be reached.", { status: 503 });
  }
  if (answer.ok) return location.reload(); // shows the view of the address
  wrong.textContent = (await answer.text()).trim();
  wrong.hidden = false;
  token.select();
});
token.focus();
