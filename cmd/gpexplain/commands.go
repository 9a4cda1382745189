package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/inference"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
)

func newRoot(con *console.Console) *cobra.Command {
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
	root.SetArgs(inference.JoinTune(con.Args))
	root.SetOut(con.Out)
	root.SetErr(con.Stderr)
	root.CompletionOptions.DisableDescriptions = true
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	for _, command := range []func(*console.Console) *cobra.Command{explainCommand, predictCommand, importancesCommand, fitCommand, evidenceCommand,
		validateCommand, trainCommand, inspectCommand, versionCommand} {
		root.AddCommand(command(con))
	}
	root.InitDefaultCompletionCmd()
	if shells, _, err := root.Find([]string{"completion"}); err == nil {
		shells.RunE = func(c *cobra.Command, args []string) error { return c.Help() }
	}
	return root
}

// flagError says what is wrong with a flag and where its help is.
func flagError(c *cobra.Command, err error) error {
	what, _, _ := strings.Cut(err.Error(), ": strconv.")
	return console.Usagef("%s; see %s --help", what, c.CommandPath())
}

// A verb is a command that works on a model or data.
type verb struct {
	name, short, long, example string
	flags                      func(c *cobra.Command)                                // adds the verb's own
	check                      func(c *cobra.Command) error                          // looks at their values without opening a file
	run                        func(ctx context.Context, con *console.Console) error // does the work
	complete                   map[string][]string                                   // values of its own flags
	omit                       []string                                              // common flags that mean nothing to it: taken, not listed
}

// command makes the verb a command that speaks on con and takes the common
// flags beside its own.
func (v *verb) command(con *console.Console, common *problem.Flags) *cobra.Command {
	c := &cobra.Command{Use: v.name, Short: v.short, Long: v.long, Example: v.example, Args: cobra.NoArgs, DisableFlagsInUseLine: true}
	own, shared := &cobra.Command{}, &cobra.Command{}
	own.Flags().SortFlags, shared.Flags().SortFlags = false, false
	if v.flags != nil {
		v.flags(own)
	}
	common.Add(shared, con, v.name != "train")
	for _, name := range v.omit {
		shared.Flags().Lookup(name).Hidden = true
	}
	c.Flags().AddFlagSet(own.Flags())
	c.Flags().AddFlagSet(shared.Flags())
	c.SetUsageFunc(func(c *cobra.Command) error { return usage(c, own, shared) })
	for _, list := range []map[string][]string{v.complete, problem.CommonValues} {
		for flag, values := range list {
			if c.Flags().Lookup(flag) != nil {
				// It fails only for a flag that does not exist.
				_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveDefault))
			}
		}
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		con.Running = true
		if err := v.checkAll(c, con, common); err != nil {
			return err
		}
		con.Begin()
		end, err := common.Limits.Apply()
		if err != nil {
			return err
		}
		defer end()
		if err := v.run(c.Context(), con); err != nil {
			return problem.InFlags(err, c.Flags().Changed("posterior"))
		}
		return con.Verdict()
	}
	return c
}

// checkAll refuses a wrong command line.
func (v *verb) checkAll(c *cobra.Command, con *console.Console, common *problem.Flags) error {
	if err := common.Check(c); err != nil {
		return err
	}
	if con.Quiet && con.Verbose {
		return console.Usagef("--quiet and --verbose exclude each other")
	}
	if v.check != nil {
		if err := v.check(c); err != nil {
			return err
		}
	}
	return con.Out.CheckJSON(con.JSON)
}

// helpWidth is where help wraps.
const helpWidth = 100

// usage lists a verb's own flags before those that all verbs share.
func usage(c, own, shared *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s [flags]\n", c.CommandPath())
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	if own.Flags().HasFlags() {
		fmt.Fprintf(w, "\nFlags of %s:\n%s", c.Name(), own.Flags().FlagUsagesWrapped(helpWidth))
	}
	_, err := fmt.Fprintf(w, "\nFlags of all verbs:\n%s", shared.Flags().FlagUsagesWrapped(helpWidth))
	return err
}

// helpCommand is cobra's own, but it fails where there is no such verb.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [verb]",
		Short: "Show the flags of a verb",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return console.Usagef("there is no verb %q; see gpexplain help", strings.Join(args, " "))
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

func versionCommand(con *console.Console) *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	c.Flags().BoolVar(&con.JSON, "json", false, "write JSON to standard output")
	c.RunE = func(*cobra.Command, []string) error {
		con.Running = true
		if err := con.Out.CheckJSON(con.JSON); err != nil {
			return err
		}
		v := map[string]string{"schema": "funcgp/version/1", "version": "(devel)", "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
		if info, ok := debug.ReadBuildInfo(); ok {
			if info.Main.Version != "" {
				v["version"] = info.Main.Version
			}
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					v["revision"] = s.Value
				}
			}
		}
		if con.JSON {
			return json.NewEncoder(con.Out).Encode(v)
		}
		_, err := fmt.Fprintf(con.Out, "gpexplain %s %s %s\n", v["version"], v["go"], v["platform"])
		return err
	}
	return c
}
