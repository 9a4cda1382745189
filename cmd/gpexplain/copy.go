package main

import (
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
)

// argumentsOf returns the arguments listed in JSON in a file, if @FILE is the only argument, and otherwise the
// arguments unchanged. A file is for arguments that are too long for a command line, or that other users of the
// machine may not see.
func argumentsOf(args []string) ([]string, error) {
	if len(args) != 1 || !strings.HasPrefix(args[0], "@") {
		return args, nil
	}
	b, err := os.ReadFile(args[0][1:])
	if err != nil {
		return nil, job.Usagef("%s: %v; name a file with a JSON list of arguments", args[0], job.CauseOf(err))
	}
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, job.Usagef("%s: %v; write the arguments as a JSON list of strings", args[0], err)
	}
	return list, nil
}

// copyCommand returns the command that writes a file in the same way as the flags of other verbs do. Programs
// in other languages run it.
func copyCommand(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:    "copy FROM TO",
		Short:  "Write a copy of a file as --out does",
		Long:   "Copy writes a copy of a file completely or not at all, through a link to the file that it leads to.",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			con.Running = true
			from, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer from.Close()
			return atomicfile.Write(args[1], func(w io.Writer) error {
				_, err := io.Copy(w, from)
				return err
			})
		},
	}
}
