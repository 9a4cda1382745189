package saved

import (
	"math"

	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
)

// An About is what the JSON section of every saved posterior has.
type About struct {
	Version  int
	N, C     int // training examples and outputs
	P        int `json:",omitempty"` // parameters
	Refit    bool
	Mean     int // a gp.Mean
	Warnings linearize.Warnings
}

// Check sets an error of r if the version is not ours or the sizes are impossible. Earlier versions are not read,
// because they hold no fingerprints.
func (a *About) Check(r *store.Reader, ours int) {
	Version(r, a.Version, ours)
	if r.Err() == nil && !(Size(a.N) && Size(a.C) && a.P >= 0 && a.P <= math.MaxInt32 && a.Mean >= 0 && a.Mean <= 1) {
		_ = r.Fail(WriteAgain, Impossible)
	}
}

// Size tells whether v can be a number of examples or outputs. The product of two such numbers does not overflow.
func Size(v int) bool { return v >= 1 && v <= math.MaxInt32 }

// Belongs sets an error of r if the sizes of the posterior differ from n, c and p, those of the data. A size of −1
// is not compared.
func (a *About) Belongs(r *store.Reader, n, c, p int) {
	for _, x := range []struct {
		what    string
		was, is int
	}{{"training examples", a.N, n}, {"outputs", a.C, c}, {"parameters", a.P, p}} {
		if r.Err() == nil && x.is >= 0 && x.was != x.is {
			_ = r.Fail(OtherData, "the saved posterior has %d %s, the data %d", x.was, x.what, x.is)
		}
	}
}

// Version sets an error of r if was, the version of a saved posterior, is not ours.
func Version(r *store.Reader, was, ours int) {
	if r.Err() == nil && was != ours {
		_ = r.Fail(FitAgain, "holds a posterior in version %d of its format, this program reads version %d", was, ours)
	}
}

// A Field is a section of numbers of a posterior: a type declares its fields once, for Save and Load.
type Field struct {
	name    string
	to      *[]float64
	dims    []int
	scalars []*float64
}

// Floats returns a field of as many numbers as the product of dims.
func Floats(name string, to *[]float64, dims ...int) Field {
	return Field{name: name, to: to, dims: dims}
}

// Scalars returns a field of several single numbers in one section.
func Scalars(name string, to ...*float64) Field { return Field{name: name, scalars: to} }

// Save adds the fields to a store, in sections behind the prefix.
func Save(w *store.Writer, prefix string, fields []Field) {
	for _, f := range fields {
		var v []float64
		if f.to != nil {
			v = *f.to
		}
		for _, s := range f.scalars {
			v = append(v, *s)
		}
		w.Floats(prefix+f.name, v)
	}
}

// Load reads the fields, and tells whether r has no error. The slices refer to the store's memory.
func Load(r *store.Reader, fields []Field) bool {
	for _, f := range fields {
		if f.to != nil {
			*f.to = r.Floats(f.name, f.dims...)
			continue
		}
		v := r.Floats(f.name, len(f.scalars))
		for i := range v {
			*f.scalars[i] = v[i]
		}
	}
	return r.Err() == nil
}
