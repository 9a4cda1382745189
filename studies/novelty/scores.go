package novelty

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

type scores map[string][]float64

// exploration
type table2 struct {
	Train, Test scores
	Others      map[string]scores
}

func features(b *linearize.Batch) *mat.Dense {
	for i := len(b.Blocks) - 1; i >= 0; i-- {
		if o, ok := b.Blocks[i].(*linearize.Outer); ok && o.A != nil {
			if _, c := o.G.Dims(); c == b.Outputs() {
				return o.A
			}
		}
	}
	return nil
}

func explore(ctx context.Context, p *problem, eps float64) (*table2, error) {
	train, err := p.net.Linearize(ctx, p.train)
	if err != nil {
		return nil, err
	}
	prior, err := ntk.NewIsotropic(p.precision, nil)
	if err != nil {
		return nil, err
	}
	k := ntk.New(prior, p.net.Theta(), nil)
	var fit *gp.Exact
	fit, err = gp.Refit(ctx, k, train, p.y, p.lik, nil)
	if err != nil {
		return nil, err
	}
	n, c := train.Len(), train.Outputs()
	d := new(mat.Dense)
	k.DiagTo(d, train)
	mean := 0.0
	for i := range n * c {
		mean += d.At(i, i%c)
	}
	mean /= float64(n * c)
	v, err := fit.Condition(ctx, gp.UniformSites(n, c, eps*mean))
	if err != nil {
		return nil, err
	}
	ent := func(f, cov *mat.Dense) ([]float64, []float64, error) {
		var link glm.Link
		if c > 2 {
			link = glm.Probit{}
		}
		nv, err := glm.NoveltyOf(ctx, link, p.lik, f, cov, 0)
		if err != nil {
			return nil, nil, err
		}
		return nv.Score, nv.Mutual, nil
	}
	vscore := func(cov *mat.Dense, x *linearize.Batch) (s, tr, rel []float64) {
		var prior mat.Dense
		k.DiagTo(&prior, x)
		s, tr, rel = make([]float64, x.Len()), make([]float64, x.Len()), make([]float64, x.Len())
		for i := range s {
			a, b := 0.0, 0.0
			for j := range c {
				a += cov.At(i*c+j, j)
				b += prior.At(i*c+j, j)
			}
			s[i], tr[i], rel[i] = a/math.Sqrt(b), a, a/b
		}
		return
	}
	in, last := newDistances(p.train, labelsOf(p)), newDistances(features(train), labelsOf(p))
	of := func(x *mat.Dense, own bool) (scores, error) {
		b := train
		if !own {
			if b, err = p.net.Linearize(ctx, x); err != nil {
				return nil, err
			}
		}
		t := b.Len()
		m, cov, vc := mat.NewDense(t, c, nil), mat.NewDense(t*c, c, nil), mat.NewDense(t*c, c, nil)
		rows := make([]int, t)
		for i := range rows {
			rows[i] = i
		}
		if own {
			if err := fit.LeaveOneOutTo(ctx, m, cov, rows, b); err != nil {
				return nil, err
			}
			if err := v.LeaveOneOutTo(ctx, nil, vc, rows, b); err != nil {
				return nil, err
			}
		} else {
			if err := fit.PredictTo(ctx, nil, cov, b); err != nil {
				return nil, err
			}
			m = b.F
			if err := v.PredictTo(ctx, nil, vc, b); err != nil {
				return nil, err
			}
		}
		s := scores{}
		if s["entropy"], s["mutual"], err = ent(m, cov); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s["mutual"], math.IsNaN) {
			delete(s, "mutual")
		}
		s["v"], s["vtr"], s["vrel"] = vscore(vc, b)
		s["postvar"], _, _ = vscore(cov, b)
		if _, ok := p.lik.(*glm.Gaussian); !ok {
			msp, energy := make([]float64, t), make([]float64, t)
			for i := range t {
				f := slices.Clone(m.RawRowView(i))
				if len(f) == 1 {
					f = []float64{-f[0] / 2, f[0] / 2}
				}
				l := floats.LogSumExp(f)
				msp[i], energy[i] = 1-math.Exp(floats.Max(f)-l), -l
			}
			s["msp"], s["energy"] = msp, energy
		}
		in.add(s, "in-", x, own)
		in.scaled(s, x, own)
		last.add(s, "last-", features(b), own)
		return s, nil
	}
	out := &table2{Others: map[string]scores{}}
	if out.Train, err = of(p.train, true); err != nil {
		return nil, err
	}
	if out.Test, err = of(p.test, false); err != nil {
		return nil, err
	}
	for _, o := range p.others {
		if out.Others[o.name], err = of(o.x, false); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func labelsOf(p *problem) []int {
	n, _ := p.y.Dims()
	l := make([]int, n)
	if _, ok := p.lik.(*glm.Gaussian); !ok {
		for i := range l {
			l[i] = int(p.y.At(i, 0))
		}
	}
	return l
}

type distances struct {
	x      *mat.Dense
	labels []int
	unit   *mat.Dense
}

func newDistances(x *mat.Dense, labels []int) *distances { return &distances{x: x, labels: labels} }

func unitRows(x *mat.Dense) *mat.Dense {
	u := mat.DenseCopyOf(x)
	n, _ := u.Dims()
	for i := range n {
		r := u.RawRowView(i)
		if s := floats.Norm(r, 2); s > 0 {
			floats.Scale(1/s, r)
		}
	}
	return u
}

func (d *distances) add(s scores, prefix string, x *mat.Dense, own bool) {
	for name, pair := range map[string][2]*mat.Dense{"knn": {d.x, x}, "cos": {unitRows(d.x), unitRows(x)}} {
		t, _ := x.Dims()
		n, _ := d.x.Dims()
		out := map[int][]float64{1: make([]float64, t), 5: make([]float64, t), 10: make([]float64, t)}
		for i := range t {
			var all []float64
			for j := range n {
				if own && i == j {
					continue
				}
				all = append(all, floats.Distance(pair[0].RawRowView(j), pair[1].RawRowView(i), 2))
			}
			slices.Sort(all)
			for k := range out {
				out[k][i] = all[k-1]
			}
		}
		s[prefix+name+"1"], s[prefix+name+"5"], s[prefix+name+"10"] = out[1], out[5], out[10]
	}
	for _, shrink := range []struct {
		name string
		by   float64
	}{{"-3", 1e-3}, {"-2", 1e-2}, {"-1", 1e-1}} {
		s[prefix+"maha"+shrink.name] = d.mahalanobis(x, own, false, shrink.by)
		s[prefix+"mahac"+shrink.name] = d.mahalanobis(x, own, true, shrink.by)
	}
}

func (d *distances) mahalanobis(x *mat.Dense, own, classes bool, shrink float64) []float64 {
	n, dim := d.x.Dims()
	labels := make([]int, n)
	k := 1
	if classes {
		labels = d.labels
		k = slices.Max(labels) + 1
	}
	means, count := mat.NewDense(k, dim, nil), make([]float64, k)
	for i := range n {
		floats.Add(means.RawRowView(labels[i]), d.x.RawRowView(i))
		count[labels[i]]++
	}
	for c := range k {
		if count[c] > 0 {
			floats.Scale(1/count[c], means.RawRowView(c))
		}
	}
	s := mat.NewSymDense(dim, nil)
	u := make([]float64, dim)
	for i := range n {
		floats.SubTo(u, d.x.RawRowView(i), means.RawRowView(labels[i]))
		s.SymRankOne(s, 1, mat.NewVecDense(dim, u))
	}
	tr := mat.Trace(s) / float64(dim)
	for j := range dim {
		s.SetSym(j, j, s.At(j, j)+shrink*tr)
	}
	var ch mat.Cholesky
	if !ch.Factorize(s) {
		panic("no factor")
	}
	t, _ := x.Dims()
	out := make([]float64, t)
	var sol mat.VecDense
	for i := range t {
		out[i] = math.Inf(1)
		for c := range k {
			if count[c] == 0 {
				continue
			}
			floats.SubTo(u, x.RawRowView(i), means.RawRowView(c))
			w := mat.NewVecDense(dim, u)
			_ = ch.SolveVecTo(&sol, w)
			q := mat.Dot(&sol, w)
			if own && c == labels[i] {
				f := count[c] / (count[c] - 1)
				q = f * f * q / (1 - f*q)
			}
			out[i] = min(out[i], q)
		}
	}
	return out
}

func (d *distances) scaled(s scores, x *mat.Dense, own bool) {
	n, dim := d.x.Dims()
	mean, v := make([]float64, dim), make([]float64, dim)
	for i := range n {
		floats.Add(mean, d.x.RawRowView(i))
	}
	floats.Scale(1/float64(n), mean)
	for i := range n {
		for j, a := range d.x.RawRowView(i) {
			v[j] += (a - mean[j]) * (a - mean[j]) / float64(n)
		}
	}
	all := floats.Sum(v) / float64(dim)
	for _, m := range []struct {
		name  string
		floor float64
	}{{"c", -1}, {"s1", .1}, {"s2", .01}, {"s3", .001}, {"s0", 1}} {
		to := func(x *mat.Dense) *mat.Dense {
			u := mat.DenseCopyOf(x)
			u.Apply(func(_, j int, a float64) float64 {
				if m.floor < 0 {
					return a - mean[j]
				}
				return (a - mean[j]) / math.Sqrt(v[j]+m.floor*all)
			}, u)
			return u
		}
		a, b := to(d.x), to(x)
		for _, kind := range []string{"cos", "knn"} {
			if kind == "cos" {
				a, b = unitRows(a), unitRows(b)
			}
			t, _ := b.Dims()
			one := make([]float64, t)
			var g mat.Dense
			g.Mul(b, a.T())
			na := make([]float64, n)
			for j := range n {
				na[j] = floats.Dot(a.RawRowView(j), a.RawRowView(j))
			}
			for i := range t {
				one[i] = math.Inf(1)
				nb := floats.Dot(b.RawRowView(i), b.RawRowView(i))
				for j := range n {
					if !own || i != j {
						one[i] = min(one[i], math.Sqrt(max(0, na[j]+nb-2*g.At(i, j))))
					}
				}
			}
			s["sc-"+m.name+kind] = one
			if kind == "cos" {
				a, b = to(d.x), to(x)
			}
		}
	}
}
