package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

const (
	// changeTolerance is how far, relative to 1 or to the value if that is more, the mean for other training
	// rows may be from that of a fit to them.
	changeTolerance = 1e-6
	// integralTolerance is how far their probabilities may be, of which more than two are integrals by points
	// that depend on the covariance to the last bit.
	integralTolerance = 1e-4
)

// changes asks what a prediction would be without training rows and with other labels, and compares with
// fits to those rows, of small tables in which rows occur several times, and of one with 1,000 classes.
var changes = Part{Name: "changes", Short: "predictions without training rows, with other labels and without the smallest set that changes the class, against fits to those rows, also of 1,000 classes and equal rows",
	Run: func(ctx context.Context, env *Env, r *Result) error {
		for n := uint64(0); ctx.Err() == nil; n++ {
			t := newSmall(env.Rand(n), n)
			if err := t.turn(ctx, env, r); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	}}

// A small is a table of numbers with a network and questions about it.
type small struct {
	what  string
	rows  [][]float64 // features, then the target
	train []int       // the training rows
	words []string    // of every question
	rng   *rand.Rand
	c     int  // classes, 0 for a regression
	all   bool // of 1,000 classes, none are taken together, which takes minutes
}

// newSmall draws the table of turn n. Every twelfth has 1,000 classes, of which the training rows have
// few; one in 600 takes none of them together.
func newSmall(rng *rand.Rand, n uint64) *small {
	t := &small{rng: rng, c: []int{0, 2, 3, 5}[rng.IntN(4)], all: n%600 == 599}
	count := 6 + rng.IntN(30)
	if n%12 == 5 {
		t.c, count = 1000, 1000
	}
	for i := range count {
		row := []float64{math.Round(10*rng.NormFloat64()) / 10, math.Round(10*rng.NormFloat64()) / 10, rng.NormFloat64()}
		switch {
		case t.c == 1000:
			row[2] = float64(i)
		case t.c > 0 && i < 2*t.c:
			row[2] = float64(i % t.c)
		case t.c > 0:
			row[2] = float64(rng.IntN(t.c))
		}
		if i > 0 && rng.IntN(3) == 0 { // the features of a row before, and mostly its target
			label := row[2]
			copy(row, t.rows[rng.IntN(i)])
			if t.c > 0 && i < 2*t.c || t.c == 1000 || rng.IntN(3) == 0 {
				row[2] = label
			}
		}
		t.rows = append(t.rows, row)
	}
	t.train = rng.Perm(count)
	if t.c == 1000 {
		t.train = t.train[:3+rng.IntN(4)]
	}
	if t.all {
		t.train = t.train[:3]
	}
	slices.Sort(t.train)
	t.what = fmt.Sprintf("turn %d, %d classes, %d of %d rows", n, t.c, len(t.train), count)
	return t
}

// write writes the table, with other targets at the rows of flip, and the list of training rows.
func (t *small) write(env *Env, name string, train []int, flip map[int]float64) error {
	text := "a,b,y\n"
	for i, row := range t.rows {
		y := row[2]
		if other, ok := flip[i]; ok {
			y = other
		}
		text += fmt.Sprintf("%g,%g,%g\n", row[0], row[1], y)
	}
	list := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(train), "[]")), "\n") + "\n"
	if err := os.WriteFile(filepath.Join(env.Temp, name+".txt"), []byte(list), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(env.Temp, name+".csv"), []byte(text), 0o600)
}

// explain is the report of the table of this name; why says why there is none.
func (t *small) explain(ctx context.Context, env *Env, name string, more ...string) (a *result.Report, why string, err error) {
	args := append([]string{"explain", "--json", "--quiet", "--refit", "--calibrate", "none", "--model", "changes.onnx", "--target", "y", "--data", name + ".csv", "--train-index", name + ".txt", "--test-data", "whole.csv"}, t.words...)
	stdout, stderr, exit := env.Gpexplain(ctx, append(args, more...)...)
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	if exit != 0 {
		if text := wrong(stderr, exit); text != "" {
			return nil, "", fmt.Errorf("%s", text)
		}
		return nil, strings.TrimSpace(stderr), nil
	}
	a = new(result.Report)
	return a, "", json.Unmarshal([]byte(stdout), a)
}

// turn trains a network on the table and asks about changes.
func (t *small) turn(ctx context.Context, env *Env, r *Result) error {
	if err := t.write(env, "whole", t.train, nil); err != nil {
		return err
	}
	outputs := max(1, t.c)
	if t.c == 2 {
		outputs = 1
	}
	delta := math.Exp(2 * t.rng.NormFloat64())
	args := []string{"train", "--quiet", "--data", "whole.csv", "--target", "y", "--arch", fmt.Sprintf("mlp:%d-%d", 2+t.rng.IntN(3), outputs), "--activation", []string{"tanh", "relu"}[t.rng.IntN(2)],
		"--epochs", "3", "--lbfgs", fmt.Sprint(t.rng.IntN(60)), "--prior-precision", fmt.Sprint(delta), "--seed", fmt.Sprint(t.rng.IntN(1000)), "--out", "changes.onnx"}
	if _, stderr, exit := env.Gpexplain(ctx, args...); exit != 0 {
		return fmt.Errorf("%s: train: %s", t.what, stderr)
	}
	t.words = nil
	switch {
	case t.all:
		t.words = []string{"--outputs", "all"}
	case t.c == 1000:
		t.words = []string{"--outputs", fmt.Sprintf("top:%d", 2+t.rng.IntN(30))}
	}
	t.words = append(t.words, "--at", []string{"stated", "0.1", "10"}[t.rng.IntN(3)], "--index", fmt.Sprint(t.rng.IntN(len(t.rows))))
	remove := t.rng.Perm(len(t.train))[:1+t.rng.IntN(len(t.train)/2)]
	var out []int
	for _, at := range remove {
		out = append(out, t.train[at])
	}
	if err := t.without(ctx, env, r, out); err != nil {
		return err
	}
	if t.c == 0 {
		return nil
	}
	if err := t.flip(ctx, env, r, out[:min(len(out), 3)]); err != nil {
		return err
	}
	return t.smallest(ctx, env, r)
}

// left are the training rows but out.
func (t *small) left(out []int) []int {
	return slices.DeleteFunc(slices.Clone(t.train), func(i int) bool { return slices.Contains(out, i) })
}

// without compares --without with a fit to the other rows.
func (t *small) without(ctx context.Context, env *Env, r *Result, out []int) error {
	list := strings.ReplaceAll(strings.Trim(fmt.Sprint(out), "[]"), " ", ",")
	if err := t.write(env, "changed", t.left(out), nil); err != nil {
		return err
	}
	return t.compare(ctx, env, r, func(a *result.Report) *result.Changed { return a.Without }, "--without", list)
}

// flip compares --flip with a fit to the other labels.
func (t *small) flip(ctx context.Context, env *Env, r *Result, rows []int) error {
	other, list := map[int]float64{}, ""
	for _, i := range rows {
		other[i] = float64((int(t.rows[i][2]) + 1 + t.rng.IntN(t.c-1)) % t.c)
		list += fmt.Sprintf(",%d=%g", i, other[i])
	}
	if err := t.write(env, "changed", t.train, other); err != nil {
		return err
	}
	return t.compare(ctx, env, r, func(a *result.Report) *result.Changed { return a.Flip }, "--flip", list[1:])
}

// smallest compares --smallest-flip with a fit without the set that it found.
func (t *small) smallest(ctx context.Context, env *Env, r *Result) error {
	a, _, err := t.explain(ctx, env, "whole", "--smallest-flip")
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.Find("%s: --smallest-flip %q: %s", t.what, t.words, err)
		return nil
	case a == nil || a.SmallestFlip == nil || !a.SmallestFlip.Found:
		r.Count("--smallest-flip: none", 1)
		return nil
	}
	// The class is that of the largest mean; what is most probable may be another.
	if k := largest(a.Prediction.Mean); largest(a.SmallestFlip.Mean) == k && ahead(a.Prediction.Mean) && ahead(a.SmallestFlip.Mean) {
		r.Find("%s: --smallest-flip %q stays class %d without %v", t.what, t.words, k, a.SmallestFlip.Rows)
	}
	if !a.SmallestFlip.Confirmed && ahead(a.SmallestFlip.Mean) {
		r.Find("%s: --smallest-flip %q finds %v, which is not confirmed", t.what, t.words, a.SmallestFlip.Rows)
	}
	if err := t.write(env, "changed", t.left(a.SmallestFlip.Rows), nil); err != nil {
		return err
	}
	return t.compare(ctx, env, r, func(a *result.Report) *result.Changed { return &a.SmallestFlip.Changed }, "--smallest-flip")
}

// compare asks about a change with words, and what a fit to the changed table predicts.
func (t *small) compare(ctx context.Context, env *Env, r *Result, part func(*result.Report) *result.Changed, words ...string) error {
	what := fmt.Sprintf("%s: %q", t.what, append(words, t.words...))
	asked, why, err := t.explain(ctx, env, "whole", words...)
	if err == nil {
		var fitted *result.Report
		var whyNot string
		fitted, whyNot, err = t.explain(ctx, env, "changed")
		r.Count(words[0], 1)
		switch {
		case err != nil:
		case asked == nil && fitted == nil:
			r.Count(words[0]+": both are refused", 1)
		case strings.Contains(why, "is not one of the classes") || strings.Contains(why, "needs two classes"): // of --outputs
			r.Count(words[0]+": refused", 1)
		case asked == nil || fitted == nil:
			err = fmt.Errorf("one of the two is refused: %s%s", why, whyNot)
		default:
			err = near(part(asked), &fitted.Prediction)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.Find("%s: %s", what, err)
	}
	return nil
}

// largest is the class of the largest mean, or of the sign of one.
func largest(mean []result.Float) int {
	if len(mean) == 1 {
		mean = []result.Float{0, mean[0]}
	}
	return slices.Index(mean, slices.Max(mean))
}

// ahead tells whether the class has the largest mean by more than rounding.
func ahead(mean []result.Float) bool {
	if len(mean) == 1 {
		mean = []result.Float{0, mean[0]}
	}
	sorted := slices.Sorted(slices.Values(mean))
	return float64(sorted[len(sorted)-1]-sorted[len(sorted)-2]) > changeTolerance
}

// near says how a prediction for other training data differs from that of a fit to them.
func near(got *result.Changed, want *result.Prediction) error {
	if got == nil || len(got.Mean) != len(want.Mean) || len(got.Probability) != len(want.Probability) {
		return fmt.Errorf("other outputs: %+v", got)
	}
	for i, x := range got.Mean {
		y := float64(want.Mean[i])
		if !(math.Abs(float64(x)-y) <= changeTolerance*max(1, math.Abs(y))) {
			return fmt.Errorf("mean %d is %v, and %v of a fit", i, x, y)
		}
	}
	for i, x := range got.Probability {
		if !(math.Abs(float64(x-want.Probability[i])) <= integralTolerance) {
			return fmt.Errorf("probability %d is %v, and %v of a fit", i, x, want.Probability[i])
		}
	}
	return nil
}
