package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/protocols"
)

func evaluateCommand(con *console.Console) *cobra.Command {
	o := &protocols.Options{}
	s := &reproduceVerb{verb: "evaluate", studies: protocols.All(&protocols.Options{Models: 1, Runs: 1})}
	c := &cobra.Command{
		Use:   "evaluate [PROTOCOL]",
		Short: "Judge attributions against networks trained again without a part of the rows",
		Long: `Evaluate trains networks again without a part of the training rows, such as random
halves, and compares their outputs with what attributions of the network of all rows
predict: contributions, removals, and the scores of other methods. The protocol
mislabelled asks which of them find wrong labels. Without a protocol it lists all.

Most scores are rank correlations, such as the linear datamodeling score, without unit;
1 is best, and the page of each protocol says what its scores are.
It writes to a directory a page with tables and plots, the tables as CSV files, the
plots as PNG and SVG files, and in retrained the outputs of each network that was
trained again, so that a call that was interrupted goes on where it ended. Several
processes may share the directory: --part 0/2 and 1/2 divide the steps among two of
them, and a last call without --part makes the page.`,
		Example:               `  gpexplain evaluate`,
		Args:                  cobra.MaximumNArgs(1),
		DisableFlagsInUseLine: true,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return s.names(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	s.flags(c, con)
	f := c.Flags()
	f.IntVar(&o.Models, "models", 1, "attribute `K` networks trained on all rows, and their mean")
	f.IntVar(&o.Runs, "runs", 2, "train `K` networks on each half; the second gives the ceiling")
	c.RunE = func(c *cobra.Command, args []string) error {
		con.Running = true
		for _, flag := range []string{"models", "runs"} {
			if v, _ := f.GetInt(flag); v < 1 {
				return console.Usagef("--%s %d must be at least 1", flag, v)
			}
			if len(args) == 0 && f.Changed(flag) {
				return console.Usagef("--%s is for a protocol; name one of %s", flag, strings.Join(s.names(), ", "))
			}
		}
		if len(args) == 0 {
			return s.list(c, con)
		}
		if s.out != "" {
			o.Dir = filepath.Join(s.out, "retrained")
		}
		s.studies = protocols.All(o)
		return s.start(c, con, args[0])
	}
	return c
}
