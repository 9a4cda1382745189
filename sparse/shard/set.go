package shard

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// A Set has all parts of a pass. They are in files; one file at a time is open.
type Set struct {
	paths []string // in the order of the parts
	parts []about
	sums  *sparse.Sums // over all parts, where the sums are not in the files
}

// An Error says which file cannot be merged with the others, and why.
type Error = store.Error

// A MissingError is the Error of parts that are in no file.
type MissingError struct {
	Err     Error // names the first of them
	Numbers []int // numbers of the missing parts, ascending
}

// Error implements error.
func (e *MissingError) Error() string { return e.Err.Error() }

// Unwrap returns the *Error.
func (e *MissingError) Unwrap() error { return &e.Err }

// Remedies of an Error.
const (
	computeAgain = "compute this part again as the others were"
	leaveOut     = "leave one of them out"
)

// Open reads the headers of the files, given in any order, and returns the set of all parts of one pass. The error
// is an *Error that names a file: one that is damaged or given twice, or of another pass than most, that is with
// another model, prior, likelihood, inducing set, data or mode. It is a *MissingError where nothing else is wrong.
func Open(paths []string) (*Set, error) { return open(paths, nil) }

// OpenApart is Open for parts written without their sums. The sums were added separately, for example by an engine
// that groups values by key. There is also an error where the sums are not over all examples of the parts.
func OpenApart(paths []string, sums *sparse.Sums) (*Set, error) {
	s, err := open(paths, sums)
	if err == nil && sums.Len() != s.Len() {
		return nil, fmt.Errorf("shard: the sums added apart are of %d examples, and the parts of %d; compute both again", sums.Len(), s.Len())
	}
	return s, err
}

// open opens the parts of a pass. Their sums are in the files, or in sums if that is not nil.
func open(paths []string, sums *sparse.Sums) (*Set, error) {
	all := make([]about, len(paths))
	for i, path := range paths {
		f, err := store.Open(path, Kind, Version)
		if err != nil {
			return nil, err
		}
		err = f.JSON("shard.about", &all[i])
		if err == nil && !all[i].possible() {
			err = &Error{File: path, Problem: "holds an impossible part", Remedy: computeAgain}
		}
		if err == nil && all[i].Apart != (sums != nil) {
			err = &Error{File: path, Problem: "its sums are " + map[bool]string{true: "not in the file, as they were added apart from it", false: "in the file, and not apart from it"}[all[i].Apart], Remedy: computeAgain}
		}
		if err := firstError(err, f.Close()); err != nil {
			return nil, err
		}
	}
	// Check that the parts belong to one pass, and sort them.
	numbers := make([]Part, len(all))
	for i := range all {
		numbers[i] = all[i].Part
	}
	order, err := Order(paths, numbers, func(i, j int) string {
		// Return why a is not of the same pass as b, or "" if it is.
		a := &all[i]
		b := &all[j]
		if d := a.Identity.Difference(b.Identity); d != "" {
			return d
		}
		if a.C != b.C {
			return "their sizes"
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	s := &Set{sums: sums}
	for _, i := range order {
		s.paths, s.parts = append(s.paths, paths[i]), append(s.parts, all[i])
	}
	return s, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// possible tells whether a part can have these numbers.
func (a *about) possible() bool {
	if !a.Possible() || a.Identity.Examples < 1 || a.C < 1 || a.C > math.MaxInt16 {
		return false
	}
	lo, hi := a.Rows(a.Identity.Examples)
	return a.First == lo && a.N == hi-lo && a.N > 0
}

// Order returns the positions in paths of the files of all parts, in the order of the parts. foreign says why two
// files are not of one pass, or "". The error is an *Error that names a file given twice or unlike most, or else a
// *MissingError.
func Order(paths []string, parts []Part, foreign func(i, j int) string) ([]int, error) {
	if len(paths) == 0 {
		return nil, fmt.Errorf("shard: no parts to merge")
	}
	differ := func(i, j int) string {
		if a, b := parts[i].Of, parts[j].Of; a != b {
			return fmt.Sprintf("the number of parts, %d and %d", a, b)
		}
		return foreign(i, j)
	}
	// Find the first of those files that agree with the largest number of others.
	n := len(paths)
	var kinds, counts []int
	for i := range n {
		k := slices.IndexFunc(kinds, func(j int) bool { return differ(i, j) == "" })
		if k < 0 {
			k, kinds, counts = len(kinds), append(kinds, i), append(counts, 0)
		}
		counts[k]++
	}
	best := 0
	for k := range kinds {
		if counts[k] > counts[best] {
			best = k
		}
	}
	like := kinds[best]
	of := parts[like].Of
	at := make(map[int]int, len(paths))
	for i, path := range paths {
		if d := differ(i, like); d != "" {
			return nil, &Error{File: path, Problem: fmt.Sprintf("part %v is of another pass than %s: they differ in %s", parts[i], paths[like], d), Remedy: computeAgain}
		}
		if before, ok := at[parts[i].Number]; ok {
			return nil, &Error{File: path, Problem: fmt.Sprintf("part %v is in %s too", parts[i], paths[before]), Remedy: leaveOut}
		}
		at[parts[i].Number] = i
	}
	if len(at) < of {
		e := &MissingError{Err: Error{Problem: fmt.Sprintf("%d of %d parts are missing, this one first", of-len(at), of), Remedy: "compute it and merge again"}}
		for i := range of {
			if _, there := at[i]; !there {
				e.Numbers = append(e.Numbers, i)
			}
		}
		e.Err.File = fmt.Sprintf("part %v", Part{e.Numbers[0], of})
		return nil, e
	}
	order := make([]int, of)
	for i := range order {
		order[i] = at[i]
	}
	return order, nil
}

// Paths returns the files in the order of the parts.
func (s *Set) Paths() []string { return slices.Clone(s.paths) }

// Identity returns the Identity that all parts have.
func (s *Set) Identity() Identity { return s.parts[0].Identity }

// Len returns N, the number of training examples.
func (s *Set) Len() int { return s.Identity().Examples }

// each calls do with each part in order. One file at a time is open.
func (s *Set) each(ctx context.Context, do func(i int, f *store.File) error) error {
	for i, path := range s.paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		do := func(f *store.File) error { return do(i, f) }
		f, err := store.Open(path, Kind, Version)
		if err != nil {
			return err
		}
		if err := firstError(do(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Merge returns the posterior given the data of all parts. base must have the inducing examples and the factor of
// the parts. It adds the parts in order, and holds the sums of two parts besides the sums of the result. For a set
// of OpenApart it takes the sums given there.
func (s *Set) Merge(ctx context.Context, base *sparse.Projected) (*sparse.Projected, error) {
	b := base.Builder()
	if s.sums != nil {
		if err := b.Merge(s.sums); err != nil {
			return nil, fmt.Errorf("shard: the sums added apart: %w", err)
		}
		return b.Posterior(ctx)
	}
	err := s.each(ctx, func(i int, f *store.File) error {
		r := f.Reader("shard.")
		sums := sparse.LoadSums(r, "sums")
		if r.Err() != nil {
			return r.Err()
		}
		if sums.Len() != s.parts[i].N {
			return &Error{File: s.paths[i], Problem: fmt.Sprintf("its sums are of %d examples, not of %d", sums.Len(), s.parts[i].N), Remedy: computeAgain}
		}
		if err := b.Merge(sums); err != nil {
			return &Error{File: s.paths[i], Problem: err.Error(), Remedy: computeAgain}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b.Posterior(ctx)
}

// Check compares the inputs of every part with the inputs of rows(lo, hi), the examples lo to hi−1 of the data. The
// error is an *Error for a part with other inputs.
func (s *Set) Check(ctx context.Context, rows func(lo, hi int) linearize.Source) error {
	for i, a := range s.parts {
		f, err := linearize.FingerprintOf(ctx, rows(a.First, a.First+a.N))
		if err != nil {
			return err
		}
		if f.Data != a.Inputs {
			return &Error{File: s.paths[i], Problem: fmt.Sprintf("the inputs of rows %d to %d of the training examples are not those that part %v was computed from", a.First, a.First+a.N-1, a.Part), Remedy: computeAgain}
		}
	}
	return nil
}

// SaveSites adds the sites of all training examples to a store, in the form that gp.Sites.Save writes and
// gp.LoadSites reads. It holds the sites of one part at a time.
func (s *Set) SaveSites(ctx context.Context, w *store.Writer, prefix string) error {
	c, logLik := s.parts[0].C, 0.0
	if err := s.each(ctx, func(_ int, f *store.File) error {
		r := f.Reader("shard.")
		if v := r.Floats("loglik", 1); r.Err() == nil {
			logLik += v[0]
		}
		return r.Err()
	}); err != nil {
		return err
	}
	w.Floats(prefix+"loglik", []float64{logLik})
	for _, section := range []struct {
		name string
		per  int
	}{{"f", c}, {"residual", c}, {"lambda", c * c}, {"root", c * c}} {
		// Add a section that joins the sections of all parts, which have per numbers for each example.
		to := prefix + section.name
		name := section.name
		per := section.per
		var err error
		w.FloatRows(to, func(yield func([]float64) bool) {
			err = s.each(ctx, func(i int, f *store.File) error {
				r := f.Reader("shard.")
				if v := r.Floats(name, s.parts[i].N, per); r.Err() == nil {
					yield(v)
				}
				return r.Err()
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
