package report

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

// WriteCard writes a card as Markdown: what is predicted, what it was made from, what was assumed and checked,
// and what a reader must know before trusting the answers.
func WriteCard(w io.Writer, c *result.Card) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n", plainMarkdown(filepath.Base(c.Info.Model)), plainMarkdown(predicts(c)))
	if c.Classes != nil {
		fmt.Fprintf(&b, "Its classes are %s.\n", plainMarkdown(strings.Join(c.Classes, ", ")))
	}
	alarms, warnings := c.Fit.Alarms()
	if list := append(alarms[:len(alarms):len(alarms)], warnings...); len(list) > 0 {
		b.WriteString("\n## What to know before its answers are trusted\n\n")
		for _, text := range list {
			fmt.Fprintf(&b, "- %s\n", plainMarkdown(capital(text)))
		}
	}
	for _, group := range originWriter(c.Origin, &c.Fit, &result.Timings{}).facts() {
		fmt.Fprintf(&b, "\n## %s\n\n| | | |\n|---|---|---|\n", group.Title)
		for _, x := range group.Facts {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", plainMarkdown(x.Name), plainMarkdown(x.Value), plainMarkdown(x.Note))
		}
	}
	fmt.Fprintf(&b, "\n## What it holds and what it does not say\n\n- %s\n- %s\n", holds[c.Holds], result.NoCause)
	_, err := io.WriteString(w, b.String())
	return err
}

// holds says which personal data the posterior's file may hold.
var holds = map[result.Held]string{
	result.NoFile:         "No file of a posterior was written.",
	result.NoInputs:       "The posterior's file holds no training inputs; it names training rows by their number, identifier and label.",
	result.AllInputs:      "The posterior's file holds the training inputs, which may be personal data.",
	result.InducingInputs: "The posterior's file holds the inputs of the inducing rows, which may be personal data, and number, identifier and label of all training rows.",
}

// predicts says in a sentence what is predicted, from what.
func predicts(c *result.Card) string {
	what := cmp.Or(c.Quantity, "a number")
	switch {
	case c.Classes != nil:
		what = fmt.Sprintf("which of %d classes a row is of", len(c.Classes))
	case c.Labels != nil:
		what = fmt.Sprintf("which of the labels %s a row has", strings.Join(c.Labels, ", "))
	}
	from := fmt.Sprintf("a picture of shape %v", c.InputShape)
	if c.Columns != nil {
		from = "the columns " + strings.Join(c.Columns, ", ")
	}
	return "It predicts " + what + ", from " + from + "."
}

// markdown escapes the characters that have a meaning in a line of Markdown.
var markdown = strings.NewReplacer("\\", "\\\\", "|", "\\|", "*", "\\*", "_", "\\_", "`", "\\`", "<", "&lt;", ">", "&gt;", "&", "&amp;", "[", "\\[", "]", "\\]", "#", "\\#", "\n", " ", "\r", " ")

// plainMarkdown returns the text with all markup escaped, so that names in it appear as they are.
func plainMarkdown(text string) string { return markdown.Replace(text) }
