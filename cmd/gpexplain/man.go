package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
)

// manCommand writes manual pages for man(1) from the texts of the help.
func manCommand(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write manual pages to a directory",
		Long:   "Man writes gpexplain.1 and a page for each verb to a directory, which it makes.",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			con.Running = true
			// Write the page of the command and the pages of its verbs.
			root := c.Root()
			dir := args[0]
			if err := os.MkdirAll(dir, 0o777); err != nil {
				return &atomicfile.Error{Path: dir, Err: job.CauseOf(err)}
			}
			write := func(name string, page *manPage) error {
				return atomicfile.Write(filepath.Join(dir, name+".1"), func(w io.Writer) error {
					_, err := io.WriteString(w, page.String())
					return err
				})
			}
			if err := write("gpexplain", rootPage(root)); err != nil {
				return err
			}
			for _, c := range verbsOf(root) {
				if err := write("gpexplain-"+c.Name(), verbPage(c)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func rootPage(root *cobra.Command) *manPage {
	p := newManPage("gpexplain", root.Short)
	p.section("SYNOPSIS")
	p.line(`\fBgpexplain\fR \fIverb\fR [\fIflags\fR]`)
	p.section("DESCRIPTION")
	p.prose(root.Long)
	p.section("VERBS")
	for _, c := range verbsOf(root) {
		p.item(`\fBgpexplain\-`+roff(c.Name())+`\fR(1)`, c.Short)
	}
	p.section("EXIT STATUS")
	for _, x := range [][2]string{{"0", "The answer is complete."}, {"1", "Something went wrong, which one line on standard error says."}, {"2", "The command line is wrong."}, {"130, 143", "Interrupted by Ctrl-C, or by SIGTERM."}} {
		p.item(x[0], x[1])
	}
	p.section("EXAMPLES")
	p.example(root.Example)
	return p
}

func verbPage(c *cobra.Command) *manPage {
	p := newManPage("gpexplain-"+c.Name(), c.Short)
	p.section("SYNOPSIS")
	p.line(`\fBgpexplain ` + roff(c.Name()) + `\fR [\fIflags\fR]`)
	p.section("DESCRIPTION")
	p.prose(c.Long)
	for _, g := range groupsOf(c) {
		if g.all.HasFlags() {
			p.section("FLAGS: " + strings.ToUpper(g.title))
			p.flags(g.all)
		}
	}
	p.section("EXAMPLES")
	p.example(c.Example)
	p.section("SEE ALSO")
	p.line(`\fBgpexplain\fR(1)`)
	return p
}

// A manPage is the text of a page in the language of roff(7), with the macros of
// man(7).
type manPage struct{ strings.Builder }

func newManPage(name, short string) *manPage {
	p := &manPage{}
	p.line(`.TH "` + roff(strings.ToUpper(name)) + `" 1 "" "` + roff("gpexplain "+version()["version"]) + `" "gpexplain manual"`)
	p.line(".nh") // no word is divided, so that flags can be found
	p.line(".ad l")
	p.section("NAME")
	p.line(roff(name) + ` \- ` + roff(short))
	return p
}

// roff writes text so that nothing in it is a command and a hyphen stays one that a
// shell understands.
func roff(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "`", `\(ga`, "'", `\(aq`).Replace(text)
}

func (p *manPage) line(text string) { p.WriteString(text + "\n") }

func (p *manPage) section(title string) { p.line(".SH " + title) }

// text writes words, of which none begins a line with the dot of a command.
func (p *manPage) text(text string) {
	text = roff(strings.TrimSpace(text))
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	p.line(text)
}

// prose writes paragraphs that empty lines divide.
func (p *manPage) prose(text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		p.line(".PP")
		for line := range strings.Lines(paragraph) {
			p.text(line)
		}
	}
}

// item writes what is explained, in roff, and the explanation.
func (p *manPage) item(term, text string) {
	p.line(".TP")
	p.line(term)
	p.text(text)
}

func (p *manPage) example(lines string) {
	p.line(".EX")
	for line := range strings.Lines(lines) {
		p.text(line)
	}
	p.line(".EE")
}

// flagLine is a line of the help on a flag: the flag with the name of its value, and
// its meaning.
var flagLine = regexp.MustCompile(`^ *(\S.*?) {3,}(.*)$`)

// flags explains flags in the words of the help.
func (p *manPage) flags(set *pflag.FlagSet) {
	for line := range strings.Lines(set.FlagUsages()) {
		if m := flagLine.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			p.item(`\fB`+roff(m[1])+`\fR`, m[2])
		}
	}
}
