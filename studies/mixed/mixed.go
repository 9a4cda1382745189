// Package mixed asks whether a Cholesky factor in float32, refined in float64 as LAPACK's dsposv refines, could stand in
// for the float64 factor of B = I + RᵀKR (E4): for the solution of a system with B and for predictive variances, over
// random posteriors and those of a corpus. records/mixed.md has its figures: it could where ‖B‖ is below 10⁶.
//
// It is not built in, since it saves nothing where it could. A factor in float32 takes half of n³/3 flops. But evidence,
// leave-one-out and calibration, which every fit gives, need log det B and the diagonal of B⁻¹, which refinement does not
// reach, so they need the float64 factor as well. Where only some right sides are asked, three steps of refinement take
// 4·2n² flops in float32 and 3·2n² in float64 for each, where the float64 factor takes n² for a variance. With float32 at
// twice the speed that is 9n² more, so the n³/6 saved pay for n/54 right sides: 55 for n = 3000. And a kernel in float32
// errs by 10⁻⁷ of κ, which variances inherit.
//
//	go run ./gpstudies mixed -corpus ../testdata/corpus -record records/mixed.md
package mixed

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

const (
	asked     = 1e-8 // largest difference from float64
	mostSteps = 30   // of refinement, as dsposv has it
	tests     = 20   // rows whose variances are compared
)

// A problem is a posterior: K of the training rows and of both kinds of rows, and the diagonal of K of the test rows.
type problem struct {
	name    string
	k       *mat.SymDense // n×n
	root    *mat.Dense    // R, n×n
	cross   *mat.Dense    // t×n
	prior   []float64     // t
	targets []float64     // n
}

// A result compares the two precisions on one problem. Dual is the largest difference of the solution of B z = Rᵀb,
// relative to its largest entry, and Variance that of a variance, relative to its prior variance. Steps is the largest
// number of steps that a system took. Fallback says why the float64 factor is needed; it is empty otherwise.
type result struct {
	name           string
	n, steps       int
	norm           float64 // ‖B‖∞
	dual, variance float64
	fallback       string
}

// Run compares the problems and writes the figures in Markdown.
func Run(ctx context.Context, out io.Writer, args []string) error {
	f := flag.NewFlagSet("mixed", flag.ContinueOnError)
	f.SetOutput(out)
	corpus := f.String("corpus", "", "folder whose folders hold model.onnx and train.csv")
	count := f.Int("random", 200, "random problems")
	record := f.String("record", "", "write the figures in Markdown here")
	if err := f.Parse(args); err != nil {
		return err
	}
	var all []result
	for seed := range *count {
		if err := ctx.Err(); err != nil {
			return err
		}
		all = append(all, compare(random(uint64(seed))))
	}
	text := fmt.Sprintf("By `go run ./gpstudies mixed -corpus DIR`. The float64 factor is needed where a difference is larger than\n"+
		"%.0g, where B has no factor in float32, or where the refinement does not converge in %d steps.\n\n", asked, mostSteps) + table("random posteriors", all)
	if *corpus != "" {
		models, err := filepath.Glob(filepath.Join(*corpus, "*", "train.csv"))
		if err == nil && len(models) == 0 {
			err = fmt.Errorf("%s: no */train.csv", *corpus)
		}
		if err != nil {
			return err
		}
		all = nil
		for _, path := range models {
			p, err := read(ctx, filepath.Dir(path))
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			all = append(all, compare(p))
		}
		text += "\n" + table("posteriors of the corpus", all) + "\n" + each(all)
	}
	if _, err := io.WriteString(out, text); err != nil || *record == "" {
		return err
	}
	return atomicfile.Write(*record, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// random returns a posterior of 60 to 160 rows whose ‖B‖ is anything from 1 to 10¹⁴: K is J Jᵀ for a J with columns of very
// different size, and R is diagonal.
func random(seed uint64) *problem {
	rng := rand.New(rand.NewPCG(seed, 32))
	n := 60 + rng.IntN(100)
	p := n/2 + rng.IntN(n)
	largest := 14 * rng.Float64() // log₁₀ of K's largest eigenvalue, about
	j := mat.NewDense(n+tests, p, nil)
	for c := range p {
		size := math.Pow(10, (largest-8*rng.Float64())/2) / math.Sqrt(float64(n))
		for i := range n + tests {
			j.Set(i, c, size*rng.NormFloat64())
		}
	}
	var k mat.Dense
	k.Mul(j, j.T())
	q := &problem{name: fmt.Sprint("random ", seed), k: mat.NewSymDense(n, nil), root: mat.NewDense(n, n, nil)}
	for i := range n {
		for at := range i + 1 {
			q.k.SetSym(i, at, k.At(i, at))
		}
		q.root.Set(i, i, math.Sqrt(rng.Float64()/4))
		q.targets = append(q.targets, rng.NormFloat64())
	}
	q.cross = mat.DenseCopyOf(k.Slice(n, n+tests, 0, n))
	for i := range tests {
		q.prior = append(q.prior, k.At(n+i, n+i))
	}
	return q
}

// read returns the exact posterior that package funcgp fits to a folder, and tests of its training rows as test rows.
func read(ctx context.Context, dir string) (*problem, error) {
	data := funcgp.Data{Source: filepath.Join(dir, "train.csv")}
	text, err := os.ReadFile(data.Source)
	if err != nil {
		return nil, err
	}
	columns := strings.Split(strings.SplitN(string(text), "\n", 2)[0], ",")
	if columns[0] == "id" {
		data.ID, columns = columns[0], columns[1:]
	}
	net, err := network.ReadONNXFile(ctx, filepath.Join(dir, "model.onnx"), nil)
	if err != nil {
		return nil, err
	}
	d, _, _ := net.Dims()
	data.Target = strings.Join(columns[d:], ",")
	post, err := funcgp.Fit(ctx, funcgp.Model{File: filepath.Join(dir, "model.onnx")}, data, nil)
	if err != nil {
		return nil, err
	}
	defer post.Close()
	dual, rows := post.Dual(), make([]int, post.Dual().Data().Len())
	for i := range rows {
		rows[i] = i
	}
	x, err := linearize.Gather(ctx, dual.Data(), rows)
	if err != nil {
		return nil, err
	}
	var k mat.Dense
	post.Kernel().BlockTo(&k, x, x)
	n, _ := k.Dims()
	q := &problem{name: filepath.Base(dir), k: mat.NewSymDense(n, nil), root: mat.NewDense(n, n, nil)}
	q.targets = dual.PseudoTargets()
	root, c := dual.Sites().Root, x.Outputs()
	for i := range n {
		for at := range i + 1 {
			q.k.SetSym(i, at, k.At(i, at))
		}
		for at := range c {
			q.root.Set(i, i-i%c+at, root.At(i, at))
		}
	}
	t := min(tests, n)
	q.cross = mat.DenseCopyOf(k.Slice(0, t, 0, n))
	for i := range t {
		q.prior = append(q.prior, k.At(i, i))
	}
	return q, nil
}

// compare solves a problem with both factors.
func compare(q *problem) result {
	n := q.k.SymmetricDim()
	var rkr mat.Dense
	rkr.Product(q.root.T(), q.k, q.root)
	b := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i + 1 {
			b.SetSym(i, j, (rkr.At(i, j)+rkr.At(j, i))/2)
		}
		b.SetSym(i, i, b.At(i, i)+1)
	}
	r := result{name: q.name, n: n, norm: mat.Norm(b, math.Inf(1))}
	var whole mat.Cholesky
	if !whole.Factorize(b) {
		r.fallback = "no factor in float64 either"
		return r
	}
	half, ok := factor32(b)
	if !ok {
		r.fallback = "no factor in float32"
		return r
	}
	// both returns B⁻¹v by either factor, or false where the refinement does not converge.
	both := func(v []float64) (exact, refined []float64, ok bool) {
		var x mat.VecDense
		if err := whole.SolveVecTo(&x, mat.NewVecDense(n, v)); err != nil {
			if _, conditioned := err.(mat.Condition); !conditioned {
				return nil, nil, false
			}
		}
		refined, steps, ok := refine(b, half, v)
		r.steps = max(r.steps, steps)
		return x.RawVector().Data, refined, ok
	}
	right := make([]float64, n)
	mat.NewVecDense(n, right).MulVec(q.root.T(), mat.NewVecDense(n, q.targets))
	exact, refined, ok := both(right)
	if !ok {
		r.fallback = "refinement does not converge"
		return r
	}
	r.dual = floats.Distance(exact, refined, math.Inf(1)) / floats.Norm(exact, math.Inf(1))
	for i, prior := range q.prior {
		rk := make([]float64, n) // Rᵀk
		mat.NewVecDense(n, rk).MulVec(q.root.T(), mat.NewVecDense(n, q.cross.RawRowView(i)))
		exact, refined, ok := both(rk)
		if !ok {
			r.fallback = "refinement does not converge"
			return r
		}
		// v = κ − (Rᵀk)ᵀ B⁻¹ Rᵀk (E6)
		r.variance = max(r.variance, math.Abs(floats.Dot(rk, exact)-floats.Dot(rk, refined))/prior)
	}
	if !(max(r.dual, r.variance) <= asked) {
		r.fallback = "differs by more than 1e-8"
	}
	return r
}

// factor32 returns the lower Cholesky factor of B by rows, each operation in float32.
func factor32(b *mat.SymDense) (l [][]float32, ok bool) {
	n := b.SymmetricDim()
	for i := range n {
		row := make([]float32, i+1)
		for j := range i + 1 {
			v := float32(b.At(i, j))
			to := row
			if j < i {
				to = l[j]
			}
			for k := range j {
				v -= row[k] * to[k]
			}
			if j < i {
				row[j] = v / to[j]
				continue
			}
			if !(v > 0) || math.IsInf(float64(v), 0) {
				return nil, false
			}
			row[j] = float32(math.Sqrt(float64(v)))
		}
		l = append(l, row)
	}
	return l, true
}

// solve32 returns (LLᵀ)⁻¹v, each operation in float32, for a v that is scaled to its largest entry.
func solve32(l [][]float32, v []float64) []float64 {
	size := floats.Norm(v, math.Inf(1))
	if size == 0 {
		return make([]float64, len(v))
	}
	x := make([]float32, len(v))
	for i, row := range l {
		s := float32(v[i] / size)
		for j, u := range row[:i] {
			s -= u * x[j]
		}
		x[i] = s / row[i]
	}
	for i := len(l) - 1; i >= 0; i-- {
		x[i] /= l[i][i]
		for j, u := range l[i][:i] {
			x[j] -= u * x[i]
		}
	}
	out := make([]float64, len(v))
	for i, u := range x {
		out[i] = size * float64(u)
	}
	return out
}

// refine solves B x = v by steps with the float32 factor and residuals in float64, until ‖v − Bx‖ ≤ √n ε ‖B‖ ‖x‖ [LAPACK,
// dsposv].
func refine(b *mat.SymDense, l [][]float32, v []float64) (x []float64, steps int, ok bool) {
	n := len(v)
	x = solve32(l, v)
	enough := math.Sqrt(float64(n)) * 0x1p-53 * mat.Norm(b, math.Inf(1))
	for steps = range mostSteps {
		var left mat.VecDense
		left.MulVec(b, mat.NewVecDense(n, x))
		r := slices.Clone(v)
		floats.Sub(r, left.RawVector().Data)
		if floats.Norm(r, math.Inf(1)) <= enough*floats.Norm(x, math.Inf(1)) {
			return x, steps, true
		}
		floats.Add(x, solve32(l, r))
	}
	return nil, mostSteps, false
}

// table counts the results by the size of ‖B‖.
func table(what string, all []result) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d %s.\n\n", len(all), what)
	s.WriteString("| ‖B‖ | problems | float32 does | differs by more | no factor | no convergence " +
		"| steps, at most | difference of B⁻¹Rᵀb | of variances |\n|---|---|---|---|---|---|---|---|---|\n")
	for lo := 0; lo < 16; lo += 2 {
		var in []result
		count := map[string]int{}
		var steps int
		var dual, variance float64
		for _, r := range all {
			if at := math.Log10(r.norm); at < float64(lo) || at >= float64(lo+2) {
				continue
			}
			in = append(in, r)
			count[r.fallback]++
			if r.fallback == "" {
				steps, dual, variance = max(steps, r.steps), max(dual, r.dual), max(variance, r.variance)
			}
		}
		if len(in) == 0 {
			continue
		}
		none := count["no factor in float32"] + count["no factor in float64 either"]
		fmt.Fprintf(&s, "| 10^%d to 10^%d | %d | %d | %d | %d | %d | %d | %.1g | %.1g |\n", lo, lo+2, len(in), count[""],
			count["differs by more than 1e-8"], none, count["refinement does not converge"], steps, dual, variance)
	}
	return s.String()
}

// each lists results.
func each(all []result) string {
	var s strings.Builder
	s.WriteString("| posterior | N·C | ‖B‖ | steps | difference of B⁻¹Rᵀb | of variances | |\n|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		fmt.Fprintf(&s, "| %s | %d | %.2g | %d | %.1g | %.1g | %s |\n", r.name, r.n, r.norm, r.steps, r.dual, r.variance, r.fallback)
	}
	return s.String()
}
