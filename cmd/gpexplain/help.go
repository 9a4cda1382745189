package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/funcgp/funcgp/internal/job"
)

// helpWidth is where help wraps.
const helpWidth = 100

// usage lists a verb's own flags, and names those that other verbs have too.
func usage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s%s [flags]\n", c.CommandPath(), strings.TrimPrefix(c.Use, c.Name()))
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	own, shared := ownFlags(c)
	if own.HasFlags() {
		fmt.Fprintf(w, "\nFlags of %s:\n%s", c.Name(), own.FlagUsagesWrapped(helpWidth))
	}
	_, err := fmt.Fprintf(w, "\nFlags of several verbs, which gpexplain help flags describes:\n%s", wrapped(shared))
	return err
}

// wrapped writes words one after the other, indented.
func wrapped(words []string) string {
	var b strings.Builder
	line := " "
	for _, w := range words {
		if len(line)+1+len(w) > helpWidth {
			fmt.Fprintln(&b, line)
			line = " "
		}
		line += " " + w
	}
	fmt.Fprintln(&b, line)
	return b.String()
}

// ownFlags returns the flags of a verb that no other verb has in the same meaning, and
// the names of the others.
func ownFlags(c *cobra.Command) (own *pflag.FlagSet, shared []string) {
	own = newFlagSet()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden || f.Name == "help":
		case len(verbsWith(c.Root(), f)) > 1:
			shared = append(shared, "--"+f.Name)
		default:
			own.AddFlag(f)
		}
	})
	return own, shared
}

func newFlagSet() *pflag.FlagSet {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = false
	return set
}

// verbsOf returns the verbs that work on a model or data.
func verbsOf(root *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(root.Commands()), func(c *cobra.Command) bool { return c.Flags().Lookup("workers") == nil })
}

// verbsWith returns the names of the verbs that have a flag of the same name and
// meaning.
func verbsWith(root *cobra.Command, flag *pflag.Flag) []string {
	var names []string
	for _, c := range verbsOf(root) {
		if f := c.Flags().Lookup(flag.Name); f != nil && !f.Hidden && f.Usage == flag.Usage {
			names = append(names, c.Name())
		}
	}
	return names
}

// sharedFlags returns each flag that several verbs have once: first those of all
// verbs, then those of verbs with a posterior, with the names of these if they are
// few.
func sharedFlags(root *cobra.Command) (all, some *pflag.FlagSet) {
	all, some = newFlagSet(), newFlagSet()
	verbs := verbsOf(root)
	for _, c := range verbs {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			with := verbsWith(root, f)
			switch {
			case len(with) < 2 || f.Hidden || all.Lookup(f.Name) != nil || some.Lookup(f.Name) != nil:
			case slices.Contains(with, "inspect") || slices.Contains(with, "train"):
				all.AddFlag(f)
			default:
				g := *f
				if 2*len(with) <= len(verbs) {
					g.Usage += " [" + strings.Join(with, ", ") + "]"
				}
				some.AddFlag(&g)
			}
		})
	}
	return all, some
}

// flagsTopic is the page of help on the flags that several verbs have.
func flagsTopic() *cobra.Command {
	c := &cobra.Command{Use: "flags", Short: "Flags of several verbs"}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		all, some := sharedFlags(c.Root())
		fmt.Fprintf(c.OutOrStdout(), "Flags of the model, the data and the run:\n%s\nFlags of the posterior, for all verbs or those in brackets:\n%s",
			all.FlagUsagesWrapped(helpWidth), some.FlagUsagesWrapped(helpWidth))
	})
	return c
}

// helpCommand is cobra's own, but it fails where there is no such verb.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [verb]",
		Short: "Show the flags of a verb",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return noVerb(c.Root(), args)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return helpPages(c.Root()), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// helpPages are the names that gpexplain help knows.
func helpPages(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// knownVerb refuses a verb that does not exist.
func knownVerb(root *cobra.Command, args []string) error {
	if len(args) > 0 {
		return noVerb(root, args)
	}
	return nil
}

func noVerb(root *cobra.Command, args []string) error {
	name := strings.Join(args, " ")
	if hint := job.DidYouMean(name, helpPages(root)); hint != "" {
		return job.Usagef("there is no verb %q%s", name, hint)
	}
	return job.Usagef("there is no verb %q; see gpexplain help", name)
}

// flagError says what is wrong with a flag, which flag was meant, and where its help
// is.
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
		if near := strings.Replace(job.DidYouMean(name, names), "mean ", "mean --", 1); near != "" {
			return job.Usagef("%s%s", what, near)
		}
	}
	return job.Usagef("%s; see %s --help", what, c.CommandPath())
}
