// Says how many answers are right, once every question of the page has one.
const questions = document.querySelectorAll(".quiz");
const count = () => {
  const chosen = document.querySelectorAll(".quiz input:checked");
  const right = [...chosen].filter(input => "right" in input.dataset).length;
  if (chosen.length === questions.length)
    document.querySelector(".quiz-score").textContent = `${right} of ${questions.length} right.`;
};
questions.forEach(question => question.addEventListener("change", count));
