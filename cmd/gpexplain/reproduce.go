package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/coder"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/reproduce"
)

// A reproduceVerb runs studies, those of gpexplain reproduce or of another verb.
type reproduceVerb struct {
	verb     string
	studies  []*reproduce.Study
	limits   problem.LimitFlags
	out      string
	data     string
	partText string
	part     reproduce.Part
	only     []string
	quick    bool
}

func reproduceCommand(con *console.Console) *cobra.Command {
	s := &reproduceVerb{verb: "reproduce", studies: append(reproduce.Studies(), coder.Study)}
	c := &cobra.Command{
		Use:   "reproduce [STUDY]",
		Short: "Regenerate tables and figures of the sources",
		Long: `Reproduce computes a table or a group of figures of a source again, and writes
to a directory a page with tables and plots, the tables as CSV files, and the plots
as PNG and SVG files. Without a study it lists all of them.

The result of each step of a study is a file in the directory, so that a call that
was interrupted goes on where it ended. Several processes may share the directory:
--part 0/4, 1/4, 2/4 and 3/4 divide the steps among four of them, and a last call
without --part makes the page.`,
		Example:               `  gpexplain reproduce`,
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
	c.Flags().StringSliceVar(&s.only, "only", nil, "of a study of several data sets do these: `SET,...`")
	c.RunE = func(c *cobra.Command, args []string) error {
		con.Running = true
		if len(args) == 0 {
			return s.list(c, con)
		}
		return s.start(c, con, args[0])
	}
	return c
}

// start checks the flags of the study of a name and runs it.
func (s *reproduceVerb) start(c *cobra.Command, con *console.Console, name string) error {
	study, err := s.check(c, con, name)
	if err != nil {
		return err
	}
	con.Begin()
	end, err := s.limits.Apply()
	if err != nil {
		return err
	}
	defer end()
	return s.run(c.Context(), con, study)
}

// flags adds those that every verb of studies has.
func (s *reproduceVerb) flags(c *cobra.Command, con *console.Console) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&s.out, "out", "", "write to the directory `DIR`, which is made where it is not there")
	f.StringVar(&s.data, "data", "", "take the data from the directory `DIR`; the list of studies says what it must hold")
	f.BoolVar(&s.quick, "quick", false, "a reduced size on synthetic data, in a few seconds, to see how it works")
	f.StringVar(&s.partText, "part", "", "do only part `K/M` of the steps, those whose number leaves the remainder K when it is divided by M, and make no page")
	f.BoolVar(&con.Quiet, "quiet", false, "write nothing to standard error but an error")
	f.BoolVar(&con.Verbose, "verbose", false, "say on standard error what is done")
	s.limits.Add(c)
	c.SetUsageFunc(usage)
}

func (s *reproduceVerb) names() []string {
	var list []string
	for _, study := range s.studies {
		list = append(list, study.Name)
	}
	return list
}

// list prints the studies.
func (s *reproduceVerb) list(c *cobra.Command, con *console.Console) error {
	for _, flag := range []string{"out", "data", "quick", "part", "only"} {
		if c.Flags().Changed(flag) {
			return console.Usagef("--%s is for a study; name one of %s", flag, strings.Join(s.names(), ", "))
		}
	}
	return listStudies(con.Out, s.studies)
}

func listStudies(out io.Writer, studies []*reproduce.Study) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, study := range studies {
		fmt.Fprintf(w, "%s\t%s, after %s\n", study.Name, study.Short, study.Source)
		if study.Data != "" {
			fmt.Fprintf(w, "\t--data DIR holds %s\n", study.Data)
		}
		if study.Sets != nil {
			fmt.Fprintf(w, "\t--only takes %s\n", strings.Join(study.Sets, ", "))
		}
	}
	return w.Flush()
}

// check refuses a wrong command line and returns the study.
func (s *reproduceVerb) check(c *cobra.Command, con *console.Console, name string) (*reproduce.Study, error) {
	study := reproduce.Find(s.studies, name)
	switch {
	case study == nil:
		return nil, console.Usagef("there is no study %q%s; gpexplain %s lists them", name, console.DidYouMean(name, s.names()), s.verb)
	case con.Quiet && con.Verbose:
		return nil, console.Usagef("--quiet and --verbose exclude each other")
	case s.out == "":
		return nil, console.Usagef("--out DIR is missing: the directory that the page, its tables and plots are written to")
	case study.Data != "" && !s.quick && s.data == "":
		return nil, console.Usagef("--data DIR is missing: a directory with %s; or give --quick", study.Data)
	case study.Data == "" && s.data != "":
		return nil, console.Usagef("--data is for a study of data in files, not %s", name)
	case study.Data != "" && s.quick && s.data != "":
		return nil, console.Usagef("--quick and --data exclude each other: a quick run is on synthetic data")
	}
	if err := s.checkOnly(c, study); err != nil {
		return nil, err
	}
	if c.Flags().Changed("part") {
		k, m, _ := strings.Cut(s.partText, "/")
		var errK, errM error
		s.part.K, errK = strconv.Atoi(k)
		s.part.M, errM = strconv.Atoi(m)
		if errK != nil || errM != nil || s.part.K < 0 || s.part.K >= s.part.M {
			return nil, console.Usagef("--part %q must be K/M with K from 0 to M-1, such as 0/4", s.partText)
		}
	}
	return study, s.limits.Check(c)
}

// checkOnly refuses sets that the study does not have, and puts those given in the
// study's order.
func (s *reproduceVerb) checkOnly(c *cobra.Command, study *reproduce.Study) error {
	if !c.Flags().Changed("only") {
		s.only = study.Sets
		return nil
	}
	if study.Sets == nil {
		return console.Usagef("--only is for a study of several data sets, not %s", study.Name)
	}
	if len(s.only) == 0 {
		return console.Usagef("--only is empty; give it a value or leave it out")
	}
	for _, set := range s.only {
		if !slices.Contains(study.Sets, set) {
			return console.Usagef("--only %s: %s has the sets %s%s", set, study.Name, strings.Join(study.Sets, ", "), console.DidYouMean(set, study.Sets))
		}
	}
	asked := s.only
	s.only = slices.DeleteFunc(slices.Clone(study.Sets), func(set string) bool { return !slices.Contains(asked, set) })
	return nil
}

func (s *reproduceVerb) run(ctx context.Context, con *console.Console, study *reproduce.Study) error {
	o := &reproduce.Options{Data: s.data, Quick: s.quick, Only: s.only, MaxMemory: s.limits.Memory, Out: s.out}
	page, err := reproduce.Run(ctx, con, study, s.out, o, s.part)
	if err != nil {
		return err
	}
	if page == "" {
		con.Note("part %s is done; a call without --part makes the page when all parts are", s.partText)
		return nil
	}
	_, err = fmt.Fprintln(con.Out, page)
	return err
}
