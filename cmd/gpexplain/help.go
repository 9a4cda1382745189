package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// helpWidth is where help wraps.
const helpWidth = 100

// A group is a part of the help on flags. Short help shows only the usual flags of the group.
type group struct {
	title       string
	usual, more string // names with spaces between them
}

// groups lists the groups in the order of the help. A flag that is in none of them belongs to the verb's own
// group.
var groups = []group{
	{"The model and its data",
		"model data target weight-decay",
		"output bind input-columns outputs classes class-names id row-weights train-count train-index split test-data valid-data likelihood class-weights label-smoothing noise-variance prior-precision prior layers last-layer freeze learn tie " +
			"standardize input-mean input-sd target-mean target-sd"},
	{"The rows", "index input", "test-index all invert"},
	{"The posterior", "posterior method", "inducing within certify select at refit tune-prior calibrate structure predictive inducing-file select-only"},
	{"What is written", "out html csv json", "quiet verbose strict force"},
	{"The run", "", "seed shard checkpoint workers max-memory profile"},
}

// usualOwn names those flags of one verb or of a few verbs that short help shows.
const usualOwn = "top without smallest-flip coverage batch pool bundle append arch epochs optimizer lr operators optimize samples addr host"

// everything marks a verb whose help shows all flags.
const everything = "everything"

// usage lists a verb's flags by groups: the flags that most people need, or all of them.
func usage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s%s [flags]\n", c.CommandPath(), strings.TrimPrefix(c.Use, c.Name()))
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	// Sort the flags by groups, the own ones first.
	list := []flagGroup{{title: strings.ToUpper(c.Name()[:1]) + c.Name()[1:]}}
	for _, g := range groups {
		list = append(list, flagGroup{title: g.title})
	}
	for i := range list {
		list[i].usual, list[i].all = newFlagSet(), newFlagSet()
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		named := func(names string) bool { return slices.Contains(strings.Fields(names), f.Name) }
		at := 1 + slices.IndexFunc(groups, func(g group) bool { return named(g.usual + " " + g.more) })
		list[at].all.AddFlag(f)
		if named(usualOwn) || at > 0 && named(groups[at-1].usual) {
			list[at].usual.AddFlag(f)
		}
	})
	if count(list[0].all) <= 5 { // a few flags of its own are all worth a look
		list[0].usual = list[0].all
	}

	all := c.Annotations[everything] != ""
	left := 0
	for _, g := range list {
		shown := g.usual
		if all {
			shown = g.all
		}
		left += count(g.all) - count(shown)
		if shown.HasFlags() {
			fmt.Fprintf(w, "\n%s:\n%s", g.title, shown.FlagUsagesWrapped(helpWidth))
		}
	}
	if left == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%d more: gpexplain help %s --all\n", left, c.Name())
	return err
}

func count(set *pflag.FlagSet) (n int) {
	set.VisitAll(func(*pflag.Flag) { n++ })
	return n
}

// A flagGroup has the flags of a verb in a group.
type flagGroup struct {
	title      string
	usual, all *pflag.FlagSet
}

func newFlagSet() *pflag.FlagSet {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = false
	return set
}

// helpPages are the names that gpexplain help knows.
func helpPages(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// noVerb returns the error for a verb that does not exist.
func noVerb(root *cobra.Command, args []string) error {
	name := strings.Join(args, " ")
	if hint := job.DidYouMean(name, helpPages(root)); hint != "" {
		return job.Usagef("there is no verb %q%s", name, hint)
	}
	return job.Usagef("there is no verb %q; see gpexplain help", name)
}

// goneFlags maps flags of earlier versions to advice on what to do instead.
var goneFlags = map[string]string{"png": "write a page by --html and print it"}

// flagError adds to the error of a flag which flag was probably meant, and where the help on it is.
func flagError(c *cobra.Command, err error) error {
	what, _, _ := strings.Cut(err.Error(), ": strconv.")
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		// -top is the letters t, o and p to the parser.
		name := e.GetSpecifiedName()
		if letters := e.GetSpecifiedShortnames(); letters != "" {
			what, name = "unknown flag: -"+letters, letters
		}
		if instead, ok := goneFlags[name]; ok {
			return job.Usagef("--%s is gone; %s", name, instead)
		}
		if near := strings.Replace(job.DidYouMean(name, names), "mean ", "mean --", 1); near != "" {
			return job.Usagef("%s%s", what, near)
		}
	}
	said := option.Plain(what)
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		name := e.GetFlag().Name
		said = option.Text(strings.Replace(string(said), "\"--"+name+"\" flag", "\""+string(option.Named(name))+"\" flag", 1))
	}
	return job.Usagef("%v; see %s --help", said, c.CommandPath())
}
