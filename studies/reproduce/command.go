package reproduce

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A Command runs the studies of a list from a command line: NAME and flags, or nothing to list them.
type Command struct {
	Verb    string
	Studies func() []*Study        // called after the flags are parsed
	Flags   func(f *flag.FlagSet)  // flags of its own; nil for none
	Check   func(o *Options) error // of its own flags; nil for none
}

// Run runs the study that args name, or lists all on out. A study prints the path of its page on out,
// and says on standard error what is done.
func (c Command) Run(ctx context.Context, out io.Writer, args []string) error {
	if len(args) == 0 {
		return c.list(out)
	}
	f := flag.NewFlagSet(c.Verb, flag.ContinueOnError)
	f.SetOutput(out)
	o := &Options{}
	f.StringVar(&o.Out, "out", "", "write to the directory `DIR`, which is made where it is not there")
	f.StringVar(&o.Data, "data", "", "take the data from the directory `DIR`; the list of studies says what it must hold")
	f.BoolVar(&o.Quick, "quick", false, "a reduced size on synthetic data, in a few seconds, to see how it works")
	share := f.String("part", "", "do only part `K/M` of the steps, those whose number leaves the remainder K when it is divided by M, and make no page")
	only := f.String("only", "", "of a study of several data sets do these: `SET,...`")
	if c.Flags != nil {
		c.Flags(f)
	}
	name := args[0]
	if strings.HasPrefix(name, "-") {
		name = ""
	} else {
		args = args[1:]
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if c.Check != nil {
		if err := c.Check(o); err != nil {
			return err
		}
	}
	list := c.Studies()
	k := slices.IndexFunc(list, func(s *Study) bool { return s.Name == name })
	switch {
	case k < 0:
		return fmt.Errorf("there is no study %q; gpstudies %s without arguments lists them", name, c.Verb)
	case f.NArg() > 0:
		return fmt.Errorf("%q is one argument too many: gpstudies %s takes one study", f.Arg(0), c.Verb)
	case o.Out == "":
		return fmt.Errorf("-out DIR is missing: the directory that the page, its tables and plots are written to")
	}
	study := list[k]
	switch {
	case study.Data != "" && !o.Quick && o.Data == "":
		return fmt.Errorf("-data DIR is missing: a directory with %s; or give -quick", study.Data)
	case study.Data == "" && o.Data != "":
		return fmt.Errorf("-data is for a study of data in files, not %s", name)
	case study.Data != "" && o.Quick && o.Data != "":
		return fmt.Errorf("-quick and -data exclude each other: a quick run is on synthetic data")
	case *only != "" && study.Sets == nil:
		return fmt.Errorf("-only is for a study of several data sets, not %s", name)
	}
	o.Only = study.Sets
	if *only != "" {
		asked := strings.Split(*only, ",")
		for _, set := range asked {
			if !slices.Contains(study.Sets, set) {
				return fmt.Errorf("-only %s: %s has the sets %s", set, name, strings.Join(study.Sets, ", "))
			}
		}
		o.Only = slices.DeleteFunc(slices.Clone(study.Sets), func(set string) bool { return !slices.Contains(asked, set) })
	}
	var part Part
	if *share != "" {
		first, all, _ := strings.Cut(*share, "/")
		var errK, errM error
		part.K, errK = strconv.Atoi(first)
		part.M, errM = strconv.Atoi(all)
		if errK != nil || errM != nil || part.K < 0 || part.K >= part.M {
			return fmt.Errorf("-part %q must be K/M with K from 0 to M-1, such as 0/4", *share)
		}
	}
	page, err := Run(ctx, os.Stderr, study, o.Out, o, part)
	if err == nil && page != "" {
		_, err = fmt.Fprintln(out, page)
	}
	return err
}

// list prints the studies.
func (c Command) list(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range c.Studies() {
		fmt.Fprintf(w, "%s\t%s, after %s\n", s.Name, s.Short, s.Source)
		if s.Data != "" {
			fmt.Fprintf(w, "\t-data DIR holds %s\n", s.Data)
		}
		if s.Sets != nil {
			fmt.Fprintf(w, "\t-only takes %s\n", strings.Join(s.Sets, ", "))
		}
	}
	return w.Flush()
}
