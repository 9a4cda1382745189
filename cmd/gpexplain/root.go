package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// run executes one command line.
func run(ctx context.Context, stdout, stderr io.Writer, args []string) error {
	return (&invocation{args: args, out: &output{w: stdout}, stderr: stderr}).run(ctx)
}

func (v *invocation) run(ctx context.Context) error {
	root := newRoot(v)
	defer v.close()
	err := root.ExecuteContext(ctx)
	v.progress.clear()
	if v.out.err != nil {
		return v.out.err
	}
	if _, ok := errors.AsType[*usageError](err); err == nil || v.ran || ok {
		return inFlags(err, v.loads)
	}
	// Everything cobra refuses before a verb runs is the command line's fault.
	return usagef("%v; see gpexplain help", err)
}

// An invocation is one run of the command.
type invocation struct {
	args     []string
	out      *output
	stderr   io.Writer
	ran      bool // a verb has started
	loads    bool // it answers from a saved posterior
	progress *progress
	closers  []func() error // of files that answers are read from
}

// close releases what the verb still had open.
func (v *invocation) close() {
	for _, c := range v.closers {
		// Only read from: there is nothing to lose.
		_ = c()
	}
}

func newRoot(v *invocation) *cobra.Command {
	root := &cobra.Command{
		Use:   "gpexplain",
		Short: "Explain a network's predictions as sums over its training examples",
		Long: `Gpexplain explains the predictions of a trained network as sums over its
training examples, with calibrated uncertainty. It reads networks from ONNX
files; without --model it uses a small built-in one, which tells handwritten 4s
from 9s.`,
		Example: `  gpexplain explain                              # a prediction of the built-in network
  gpexplain explain --index 24 --html page.html  # another one, as a page
  gpexplain train --data digits:2000 --classes 4,9 --out net.onnx
  gpexplain explain --model net.onnx --data digits:2000`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetArgs(v.args)
	root.SetOut(v.out)
	root.SetErr(v.stderr)
	root.CompletionOptions.DisableDescriptions = true
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpVerb())
	root.AddCommand(explainVerb(v), predictVerb(v), importancesVerb(v), fitVerb(v), evidenceVerb(v), validateVerb(v), trainVerb(v), inspectVerb(v), versionVerb(v))
	root.InitDefaultCompletionCmd()
	if shells, _, err := root.Find([]string{"completion"}); err == nil {
		shells.RunE = func(c *cobra.Command, args []string) error { return c.Help() }
	}
	return root
}

// flagError says what is wrong with a flag and where its help is.
func flagError(c *cobra.Command, err error) error {
	what, _, _ := strings.Cut(err.Error(), ": strconv.")
	return usagef("%s; see %s --help", what, c.CommandPath())
}

// helpVerb is cobra's own, but for an error where there is no such verb.
func helpVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "help [verb]",
		Short: "Show the flags of a verb",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no verb %q; see gpexplain help", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			for _, v := range c.Root().Commands() {
				if len(args) == 0 && v.IsAvailableCommand() {
					names = append(names, v.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
