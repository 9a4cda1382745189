// Package reproduce regenerates tables and figures of the sources from the public API.
//
// A Study says what it computes as a list of steps. Run executes those that are not
// done yet, keeps the result of each in a file, and makes the study's page, tables
// and plots from all results. A new study is a file with a Study and a line in
// Studies. Its steps are independent of each other and return the same for any
// number of processors; each returns a value that encoding/json keeps, with
// report.Float where a number may be NaN or infinite.
//
//	var noise = &Study{
//		Name: "noise", Short: "error bars by the number of examples", Source: "[rw, section 2.2]",
//		Plan: func(ctx context.Context, o *Options) (*Plan, error) {
//			p := &Plan{Version: 1}
//			for _, n := range []int{10, 100} {
//				p.Steps = append(p.Steps, Step{Key: fmt.Sprintf("n-%d", n), Run: func(ctx context.Context, progress Progress) (any, error) {
//					return fit(ctx, n)
//				}})
//			}
//			p.Page = func(r *Results) (*Page, error) { … }
//			return p, nil
//		},
//	}
package reproduce

import (
	"context"
	"fmt"
	"regexp"
	"slices"
)

// Studies are all studies, in the order in which they are listed.
func Studies() []*Study {
	return []*Study{
		snelson,
		moonsStudy,
		uci,
		refine,
		images,
		damped,
		valla,
		normalized,
		importance,
	}
}

// A Study regenerates one table or group of figures of a source.
type Study struct {
	Verb   string   // of the command line that runs it
	Name   string   // on the command line, and the beginning of the names of its files
	Short  string   // what it compares, in one line of the list of studies
	Source string   // the table or figure, for example "[glm] table 1"
	Data   string   // what the directory of --data must hold; "" where there is no need for data
	Sets   []string // what --only chooses from; nil where there is nothing to choose

	// Plan returns the steps for the options. It opens no data of a quick run.
	Plan func(ctx context.Context, o *Options) (*Plan, error)
}

// Options are what a plan may depend on.
type Options struct {
	Data      string   // directory of the data, not "" where the study needs data
	Quick     bool     // a reduced size on synthetic data, which takes a few seconds in all
	Only      []string // some of the study's sets, in their order; never empty where it has sets
	MaxMemory int64    // bytes, 0 for 80 % of what is free
	Out       string   // directory of the results, for files that a step keeps beside them
}

// A Plan is what there is to compute and how it is shown.
type Plan struct {
	// Version counts changes of the study that change the results of its steps.
	Version int
	Steps   []Step
	// Page makes tables and plots from the results of all steps.
	Page func(r *Results) (*Page, error)
}

// Progress is told that done of total parts of a step are done.
type Progress func(done, total int)

// A Step is a part of a study that is computed as a whole, by one process.
type Step struct {
	Key  string // its name, of small letters, digits, dots and hyphens; unique in the study
	Cost int    // time that it takes as a multiple of any unit, for the estimate of the time left; 0 means 1
	// Inputs say what the result depends on beside the step's key and the version, for
	// example sums of data files. A result for other inputs is refused.
	Inputs []string
	Run    func(ctx context.Context, progress Progress) (any, error)
}

func (s *Step) cost() int { return max(s.Cost, 1) }

var keys = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// check panics where a plan is wrong in itself.
func (p *Plan) check(s *Study) {
	seen := map[string]bool{}
	for i := range p.Steps {
		key := p.Steps[i].Key
		if !keys.MatchString(key) || seen[key] || p.Steps[i].Run == nil {
			panic(fmt.Sprintf("reproduce: study %s: step %q has no good key, has that of another, or nothing to run", s.Name, key))
		}
		seen[key] = true
	}
}

// A Part is a share of the steps of a study: those whose number, from 0, leaves the
// remainder K when it is divided by M. The zero value is all of them.
type Part struct{ K, M int }

// Command is the command line that runs the study, without flags.
func (s *Study) Command() string { return "gpstudies " + s.Verb + " " + s.Name }

func (p Part) has(step int) bool { return p.M == 0 || step%p.M == p.K }

// Find returns the study of a name, nil for none.
func Find(studies []*Study, name string) *Study {
	if i := slices.IndexFunc(studies, func(s *Study) bool { return s.Name == name }); i >= 0 {
		return studies[i]
	}
	return nil
}
