package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
)

// roff escapes text for roff: a hyphen stays one that a shell understands, and nothing becomes a command.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "`", `\(ga`, "'", `\(aq`, "\n", "\n\\&").Replace

// manCommand writes pages for man(1). A page is the help of a verb as it is.
func manCommand(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write manual pages to a directory",
		Long:   "Man writes gpexplain.1 and a page for each verb to a directory, which it makes.",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			con.Running = true
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return &atomicfile.Error{Path: args[0], Err: job.CauseOf(err)}
			}
			root := c.Root()
			for _, about := range append(slices.Clone(root.Commands()), root) {
				if about != root && about.Flags().Lookup("workers") == nil {
					continue // it works on no model or data
				}
				var help strings.Builder
				about.Annotations = map[string]string{everything: "yes"}
				about.SetOut(&help)
				if err := about.Help(); err != nil {
					return err
				}
				name := strings.ReplaceAll(about.CommandPath(), " ", "-")
				err := atomicfile.Write(filepath.Join(args[0], name+".1"), func(w io.Writer) error {
					_, err := fmt.Fprintf(w, ".TH \"%s\" 1 \"\" \"%s\" \"gpexplain manual\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n\\&%s\n", roff(strings.ToUpper(name)),
						roff("gpexplain "+version()["version"]), roff(name), roff(about.Short), roff(help.String()))
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}
