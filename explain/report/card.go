package report

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

// A Card describes a network with its posterior to those who are to use it, or to approve of it: what it predicts, from
// what it was made, what was assumed and checked, and what to know before its answers are trusted.
type Card struct {
	Fit *result.Fit
	result.Origin
	Predicts string   // what, from what, in a sentence
	Classes  []string // nil for a regression
	Holds    string   // which personal data the posterior's file may hold, in a sentence
}

// WriteMarkdown writes the card as Markdown.
func (c *Card) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n", plainMarkdown(filepath.Base(c.Model)), plainMarkdown(c.Predicts))
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
	for _, group := range originWriter(c.Origin, c.Fit, &result.Timings{}).facts() {
		fmt.Fprintf(&b, "\n## %s\n\n| | | |\n|---|---|---|\n", group.Title)
		for _, x := range group.Facts {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", plainMarkdown(x.Name), plainMarkdown(x.Value), plainMarkdown(x.Note))
		}
	}
	fmt.Fprintf(&b, "\n## What it holds and what it does not say\n\n- %s\n- %s\n", c.Holds, result.NoCause)
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown are the characters that mean something in a line of Markdown.
var markdown = strings.NewReplacer("\\", "\\\\", "|", "\\|", "*", "\\*", "_", "\\_", "`", "\\`", "<", "&lt;", ">", "&gt;", "&", "&amp;", "[", "\\[", "]", "\\]", "#", "\\#", "\n", " ", "\r", " ")

// plainMarkdown is a text in which nothing is markup, whatever the names in it are.
func plainMarkdown(text string) string { return markdown.Replace(text) }
