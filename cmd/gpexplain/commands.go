package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

func newRoot(con *console.Console) *cobra.Command {
	root := &cobra.Command{
		Use:   "gpexplain",
		Short: "Explain a network's predictions as sums over its training examples",
		Long: `Gpexplain explains the predictions of a trained network as sums over its
training examples, with calibrated uncertainty. It reads networks from ONNX
files; without --model it uses a small built-in one, which tells handwritten 4s
from 9s.

The exit status is 0, or 2 for a wrong command line and 1 for what is wrong with models,
data and files, which will be wrong again. With any other the same command line may succeed:
75 where the machine failed (disk full, out of memory, input or output), 129 after SIGHUP,
130 after Ctrl-C, 143 after SIGTERM, and where it was killed.

"gpexplain @FILE" takes its arguments from a file, as a JSON list of strings: more than a
command line holds, and what other users of the machine should not see there.`,
		Example: `  gpexplain explain                              # a prediction of the built-in network
  gpexplain explain --index 24 --html page.html  # another one, as a page
  gpexplain train --data digits:2000 --classes 4,9 --epochs 5 --lbfgs 20 --out net.onnx
  gpexplain explain --model net.onnx --data digits:2000`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(root *cobra.Command, args []string) error {
			if len(args) > 0 { // the name of a verb that does not exist
				return noVerb(root, args)
			}
			return nil
		},
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
		Version: version()["version"],
	}
	root.SetVersionTemplate(versionText())
	root.Flags().Bool("version", false, "print the version")
	root.SetArgs(flags.JoinTune(con.Args))
	root.SetOut(con.Out)
	root.SetErr(con.Stderr)
	root.CompletionOptions.DisableDescriptions = true
	root.SetFlagErrorFunc(flagError)
	// Cobra's own, but it fails where there is no such verb.
	all := false
	c := &cobra.Command{
		Use:   "help [verb]",
		Short: "Show the flags of a verb, with --all those that few need too",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return noVerb(c.Root(), args)
			}
			about.InitDefaultHelpFlag()
			if all {
				about.Annotations = map[string]string{everything: "yes"}
			}
			return about.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return helpPages(c.Root()), cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().BoolVar(&all, "all", false, "list all flags of the verb")
	root.SetHelpCommand(c)
	for _, command := range []func(*console.Console) *cobra.Command{explainCommand, predictCommand, importancesCommand, auditCommand, acquireCommand, fitCommand, mergeCommand, forgetCommand, exportCommand, evidenceCommand,
		validateCommand, cardCommand, serveCommand, trainCommand, reconstructCommand, inspectCommand, versionCommand} {
		root.AddCommand(command(con))
	}
	root.AddCommand(manCommand(con), copyCommand(con))
	root.InitDefaultCompletionCmd()
	if shells, _, err := root.Find([]string{"completion"}); err == nil {
		shells.RunE = func(c *cobra.Command, args []string) error { return c.Help() }
	}
	return root
}

// A verb is a command that works on a model or data.
type verb struct {
	name, short, long, example string
	flags                      func(c *cobra.Command)                                // adds the verb's own
	check                      func(c *cobra.Command) error                          // looks at their values without opening a file
	run                        func(ctx context.Context, con *console.Console) error // does the work
	complete                   map[string][]string                                   // values of its own flags
	operand                    string                                                // the argument beside flags, for the synopsis; "" for none
	take                       func(operand string) error                            // looks at it
	several                    bool                                                  // there may be any number of operands, and take is called for each
	only                       []string                                              // common flags that mean something to it, nil for all; the others are taken, not listed

	rules  []flags.Rule          // of its own flags, checked before those of a method and check
	writes []string              // flags that name files to write
	reads  []string              // flags of its own that name files to read, which are not written over
	files  func() []job.FlagPath // more of these; nil for none
}

// command returns the verb as a command that writes to con and takes the common flags beside the verb's own.
func (v *verb) command(con *console.Console, common *flags.Common) *cobra.Command {
	c := &cobra.Command{Use: v.name, Short: v.short, Long: v.long, Example: v.example, Args: cobra.NoArgs, DisableFlagsInUseLine: true}
	if v.operand != "" {
		c.Use, c.Args = v.name+" "+v.operand, cobra.ArbitraryArgs
	}
	c.Flags().SortFlags = false
	if v.flags != nil {
		v.flags(c)
	}
	flags.Problem(c, con, common, v.name != "train")
	if v.only != nil {
		c.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = !slices.Contains(v.only, f.Name) })
	}
	c.SetUsageFunc(usage)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		values := v.complete[f.Name]
		if values == nil {
			values = option.Values(f.Name)
		}
		if values != nil {
			// It fails only for a flag that does not exist.
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveDefault))
		}
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		con.Running = true
		if v.operand != "" && (len(args) == 0 || len(args) > 1 && !v.several) {
			many := map[bool]string{false: "one argument", true: "arguments"}[v.several]
			return job.Usagef("%s needs %s, %s; see %s --help", v.name, many, v.operand, c.CommandPath())
		}
		for _, operand := range args {
			if err := v.take(operand); err != nil {
				return err
			}
		}
		// Refuse a wrong command line.
		if err := flags.CheckProblem(c, common); err != nil {
			return err
		}
		if con.Quiet && con.Verbose {
			return job.Usagef("{quiet} and {verbose} exclude each other")
		}
		if err := flags.Check(c.Flags(), append(v.rules, flags.OneOf("calibrate"), flags.Between(0, 1, false, "coverage"))); err != nil {
			return err
		}
		if v.check != nil {
			if err := v.check(c); err != nil {
				return err
			}
		}
		// Nothing is written over what is read or written, and into no folder that takes no file.
		inputs := append(common.Files(), pathsOf(c, slices.Concat([]string{"posterior", "test-index", "input", "inducing-file"}, v.reads))...)
		for _, operand := range args {
			inputs = append(inputs, job.FlagPath{Flag: option.Plain(v.operand), Path: operand})
		}
		if v.files != nil {
			inputs = append(inputs, v.files()...)
		}
		outputs := pathsOf(c, v.writes)
		if err := console.Distinct(outputs, inputs); err != nil {
			return err
		}
		if err := con.Out.CheckJSON(con.JSON); err != nil {
			return err
		}
		con.Begin()
		end, err := flags.Apply(common)
		if err != nil {
			return err
		}
		defer end()
		for _, to := range outputs {
			if err := console.Writable(to.Path); err != nil {
				return err
			}
		}
		if err := v.run(job.NewContext(c.Context(), con.Job), con); err != nil {
			return err
		}
		return con.Verdict()
	}
	return c
}

// pathsOf returns the values of the named flags, for those that the verb has.
func pathsOf(c *cobra.Command, names []string) (list []job.FlagPath) {
	for _, name := range names {
		if f := c.Flags().Lookup(name); f != nil {
			list = append(list, job.FlagPath{Flag: option.Named(name), Path: f.Value.String()})
		}
	}
	return list
}

func versionCommand(con *console.Console) *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	c.Flags().BoolVar(&con.JSON, "json", false, "write JSON to standard output")
	c.RunE = func(*cobra.Command, []string) error {
		con.Running = true
		if err := con.Out.CheckJSON(con.JSON); err != nil {
			return err
		}
		if con.JSON {
			v := version()
			v["schema"] = "funcgp/version/1"
			return json.NewEncoder(con.Out).Encode(v)
		}
		_, err := io.WriteString(con.Out, versionText())
		return err
	}
	return c
}

// version says what was built, from which commit where the build records it.
func version() map[string]string {
	v := map[string]string{"version": "(devel)", "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
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
	return v
}

func versionText() string {
	v := version()
	return fmt.Sprintf("gpexplain %s %s %s\n", v["version"], v["go"], v["platform"])
}

// bare turns off the calibration and the novelty detector, for verbs that show neither.
func bare(o *funcgp.FitOptions) { o.Calibrate = "skip" }
