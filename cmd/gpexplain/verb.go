package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// A verb is a command that works on a model or data.
type verb struct {
	name, short, long, example string
	flags                      func(c *cobra.Command)                     // adds the verb's own
	check                      func(s *shared) error                      // of their values, without opening a file
	run                        func(ctx context.Context, s *shared) error // does the work
	complete                   map[string][]string                        // values of its own flags
	omit                       []string                                   // shared flags that mean nothing to it: taken, not listed
}

// command makes v part of an invocation.
func (v *verb) command(inv *invocation) *cobra.Command {
	s := &shared{invocation: inv}
	c := &cobra.Command{Use: v.name, Short: v.short, Long: v.long, Example: v.example, Args: cobra.NoArgs, DisableFlagsInUseLine: true}
	s.cmd = c
	own, common := &cobra.Command{}, &cobra.Command{}
	own.Flags().SortFlags, common.Flags().SortFlags = false, false
	if v.flags != nil {
		v.flags(own)
	}
	s.add(common, v.name != "train")
	for _, name := range v.omit {
		common.Flags().Lookup(name).Hidden = true
	}
	c.Flags().AddFlagSet(own.Flags())
	c.Flags().AddFlagSet(common.Flags())
	c.SetUsageFunc(func(c *cobra.Command) error { return usage(c, own, common) })
	for _, list := range []map[string][]string{v.complete, sharedValues} {
		for flag, values := range list {
			if c.Flags().Lookup(flag) != nil {
				// It fails only for a flag that does not exist.
				_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveDefault))
			}
		}
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		inv.ran = true
		if err := s.check(); err != nil {
			return err
		}
		if v.check != nil {
			if err := v.check(s); err != nil {
				return err
			}
		}
		if err := s.out.checkJSON(s.json); err != nil {
			return err
		}
		end, err := s.begin()
		if err != nil {
			return err
		}
		defer end()
		return v.run(c.Context(), s)
	}
	return c
}

// helpWidth is where help wraps.
const helpWidth = 100

// usage lists a verb's own flags before those that all share.
func usage(c, own, common *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s [flags]\n", c.CommandPath())
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	if own.Flags().HasFlags() {
		fmt.Fprintf(w, "\nFlags of %s:\n%s", c.Name(), own.Flags().FlagUsagesWrapped(helpWidth))
	}
	_, err := fmt.Fprintf(w, "\nFlags of all verbs:\n%s", common.Flags().FlagUsagesWrapped(helpWidth))
	return err
}
