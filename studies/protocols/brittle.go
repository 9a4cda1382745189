package protocols

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/reproduce"
)

// removed are the numbers of training rows that are taken away.
var removed = []int{1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 70, 100, 150, 200}

// A ranking is an attribution whose first rows are taken away.
type ranking struct {
	name   string
	early  bool // whether the checkpoints are the early ones
	method func(p *protocol, model int) evaluate.Method
}

// rankings are those that are compared; the first is what the others are compared with.
var rankings = []ranking{
	{"removal at θ* along the training", true, alongTheta},
	{"gradient cosine", false, gradientDot},
	{"TRAK", false, func(p *protocol, model int) evaluate.Method {
		return evaluate.TRAK{Dim: p.projection, Seed: uint64(model)}
	}},
	{"removal", false, func(p *protocol, _ int) evaluate.Method {
		return evaluate.Kernel{Precision: p.precision(), Strength: p.strength}
	}},
	{"contributions at θ* along the training", true, alongTheta},
	{"gradient dot", false, gradientDot},
	{"TracIn", false, func(*protocol, int) evaluate.Method { return evaluate.TracIn{} }},
	{"EK-FAC", false, func(*protocol, int) evaluate.Method { return evaluate.EKFAC{} }},
	{"representer points", false, lastLayer},
	{"nearest neighbours", false, lastLayer},
	{"random", false, func(_ *protocol, model int) evaluate.Method { return evaluate.Random{Seed: uint64(model)} }},
}

func alongTheta(p *protocol, _ int) evaluate.Method { return p.alongTraining() }
func gradientDot(*protocol, int) evaluate.Method    { return evaluate.GradientDot{} }
func lastLayer(*protocol, int) evaluate.Method      { return evaluate.LastLayer{} }

// sizes are those of removed that leave at least half of the rows.
func (p *protocol) sizes() []int {
	return slices.DeleteFunc(slices.Clone(removed), func(k int) bool { return 2*k > p.train })
}

// percent is one of a hundred training rows.
func (p *protocol) percent() int { return max(1, p.train/100) }

// brittleness are the steps of how few rows must go until a test row gets another class.
func (p *protocol) brittleness(add step) (page func(r *reproduce.Results) (*reproduce.Page, error)) {
	for i := range rankings {
		add(fmt.Sprintf("removed-%d", i), 10, func(ctx context.Context, progress reproduce.Progress) (any, error) {
			return p.remove(ctx, &rankings[i], progress)
		})
	}
	return p.brittlePage
}

// A brittle is what happens to each test row without the first rows of a ranking.
type brittle struct {
	Name  string          `json:"name"`
	Flips []int           `json:"flips"` // the smallest size without which its class is another, 0 for none
	Drops []evaluate.Drop `json:"drops"` // without one of a hundred training rows
}

// remove takes away the rows that a ranking has first, for the first test rows that the
// networks have right.
func (p *protocol) remove(ctx context.Context, by *ranking, progress reproduce.Progress) (*brittle, error) {
	d, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	r, err := p.retraining(d)
	if err != nil {
		return nil, err
	}
	m := &evaluate.Removals{Retraining: r}
	for k := range p.options.Runs {
		m.Seeds = append(m.Seeds, seed(k, 0))
	}
	rows, err := p.right(ctx, d, m)
	if err != nil {
		return nil, err
	}
	r.Test, m.Y = rowsOf(d.testX, rows), rowsOf(d.testY, rows)
	for model := range p.options.Models {
		scores, err := by.scores(ctx, p, model)
		if err != nil {
			return nil, err
		}
		scores = rowsOf(scores, rows)
		if model == 0 {
			m.Scores = scores
		} else {
			m.Scores.Add(m.Scores, scores)
		}
	}
	r.Progress = progress
	b := &brittle{Name: by.name}
	if b.Flips, err = m.Flips(ctx, p.sizes()); err != nil {
		return nil, err
	}
	b.Drops, err = m.Drops(ctx, p.percent(), evaluate.Margin{})
	return b, err
}

// right returns the first test rows whose class is right with all training rows, at most
// as many as the protocol asks for.
func (p *protocol) right(ctx context.Context, d *rows, m *evaluate.Removals) ([]int, error) {
	all := evaluate.Removals{Retraining: m.Retraining, Y: d.testY, Scores: mat.NewDense(p.test, p.train, nil), Seeds: m.Seeds}
	f, err := all.Outputs(ctx, make([]int, p.test))
	if err != nil {
		return nil, err
	}
	var list []int
	for t, class := range evaluate.Classes(f) {
		if class == int(d.testY.At(t, 0)) && len(list) < p.asked {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the networks have none of %d test rows right, so that no prediction can be taken away", p.test)
	}
	return list, nil
}

func rowsOf(m *mat.Dense, rows []int) *mat.Dense {
	_, c := m.Dims()
	to := mat.NewDense(len(rows), c, nil)
	for k, t := range rows {
		to.SetRow(k, m.RawRowView(t))
	}
	return to
}

// scores returns those of a ranking by network m.
func (k *ranking) scores(ctx context.Context, p *protocol, m int) (*mat.Dense, error) {
	shares := p.shares
	if k.early {
		shares = p.early
	}
	q, err := p.trained(ctx, m, shares)
	if err != nil {
		return nil, err
	}
	list, err := k.method(p, m).Attribute(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		if a.Name == k.name {
			return a.Scores, nil
		}
	}
	panic("protocols: a method without the attribution " + k.name)
}

// brittlePage shows how few rows flip a class, and what one of a hundred takes away.
func (p *protocol) brittlePage(r *reproduce.Results) (*reproduce.Page, error) {
	var all []brittle
	for i := range rankings {
		var one brittle
		if err := r.Get(fmt.Sprintf("removed-%d", i), &one); err != nil {
			return nil, err
		}
		all = append(all, one)
		if n := len(one.Flips); n == 0 || n != len(all[0].Flips) || n != len(one.Drops) {
			return nil, fmt.Errorf("the result of %s is of other test rows than that of %s; delete the files of the steps, and run the protocol again", one.Name, all[0].Name)
		}
	}
	sizes := p.sizes()
	page := p.newPage(
		"For each test row, the training rows that a method scores highest are taken away and networks are trained again. The fewer must go until the row gets another class, the better the method knows what the prediction rests on. Test rows are the first that the networks have right with all training rows; a class is that of the mean output of the networks trained on the same rows.",
		"Numbers of rows are tried by bisection. A row that none flips counts as twice the largest. Intervals hold 95 % of bootstrap means over test rows.")
	page.Setting("test rows that are asked about", fmt.Sprint(len(all[0].Flips)))
	page.Setting("numbers of rows that are taken away", fmt.Sprint(sizes))
	page.Setting("networks trained on the same rows", fmt.Sprint(p.options.Runs))
	page.Setting("networks whose scores are added up", fmt.Sprint(p.options.Models))
	page.Sections = []reproduce.Section{*p.flipSection(all, sizes), *p.dropSection(all)}
	drawn := reproduce.NewPlot("", "rows taken away", "share of test rows with another class")
	reproduce.LogAxis(&drawn.X)
	for i := range all {
		x, y := make([]float64, len(sizes)), make([]float64, len(sizes))
		for k, size := range sizes {
			x[k] = float64(size)
			for _, flip := range all[i].Flips {
				if flip > 0 && flip <= size {
					y[k] += 1 / float64(len(all[i].Flips))
				}
			}
		}
		if err := reproduce.AddCurve(drawn, all[i].Name, i, x, y); err != nil {
			return nil, err
		}
	}
	page.Sections[0].Plots = []*reproduce.Plot{{Name: "flips", Caption: "Share of the test rows that have another class without so many rows, by method.", Width: 720, Height: 360, Grid: reproduce.BesideLegend(drawn)}}
	return page, nil
}

// logSizes are the logarithms of the sizes that flip.
func logSizes(b *brittle, sizes []int) []float64 {
	out := make([]float64, len(b.Flips))
	for t, size := range b.Flips {
		if size == 0 {
			size = 2 * sizes[len(sizes)-1]
		}
		out[t] = math.Log(float64(size))
	}
	return out
}

// median is the lower median of sizes that flip, NaN where it is that of a row that none
// flips.
func median(flips []int) float64 {
	sorted := make([]float64, len(flips))
	for t, size := range flips {
		if sorted[t] = float64(size); size == 0 {
			sorted[t] = math.Inf(1)
		}
	}
	slices.Sort(sorted)
	if m := sorted[(len(sorted)-1)/2]; !math.IsInf(m, 1) {
		return m
	}
	return math.NaN()
}

// flipSection compares the sizes that flip.
func (p *protocol) flipSection(all []brittle, sizes []int) *reproduce.Section {
	t := &reproduce.Table{Name: "flips", Caption: fmt.Sprintf("Rows to take away until the class is another: geometric mean over test rows, median, and the geometric mean as a multiple of that of %s, by pairs of test rows.", all[0].Name), Digits: 2,
		Head: []string{"method", "rows", "from", "to", "median", "test rows flipped", "multiple", "multiple from", "multiple to"}}
	first := logSizes(&all[0], sizes)
	for i := range all {
		own := logSizes(&all[i], sizes)
		cells := []reproduce.Cell{reproduce.Text(all[i].Name)}
		mean := func(v []float64) {
			low, high := evaluate.Bootstrap(v, 2000, 0.95, 0)
			for _, x := range []float64{stat.Mean(v, nil), low, high} {
				cells = append(cells, reproduce.Number(math.Exp(x)))
			}
		}
		mean(own)
		flipped := 0
		for _, size := range all[i].Flips {
			if size > 0 {
				flipped++
			}
		}
		cells = append(cells, reproduce.Number(median(all[i].Flips)), reproduce.Count(flipped))
		ratio := slices.Clone(own)
		floats.Sub(ratio, first)
		mean(ratio)
		t.Rows = append(t.Rows, cells)
	}
	return &reproduce.Section{Title: "Rows that a prediction rests on", Tables: []*reproduce.Table{t}}
}

// dropSection compares what one of a hundred rows takes away.
func (p *protocol) dropSection(all []brittle) *reproduce.Section {
	t := &reproduce.Table{Name: "drops", Caption: "Mean loss of the margin of the true class, log p − log(1 − p), in nats, and the share of test rows with another class.",
		Head: []string{"method", "loss of margin", "from", "to", "share with another class"}}
	for i := range all {
		lost, flipped := make([]float64, len(all[i].Drops)), 0.0
		for k, d := range all[i].Drops {
			if lost[k] = d.Before - d.After; d.Flipped {
				flipped += 1 / float64(len(lost))
			}
		}
		low, high := evaluate.Bootstrap(lost, 2000, 0.95, 0)
		t.Rows = append(t.Rows, []reproduce.Cell{reproduce.Text(all[i].Name), reproduce.Number(stat.Mean(lost, nil)), reproduce.Number(low), reproduce.Number(high), reproduce.Number(flipped)})
	}
	return &reproduce.Section{Title: fmt.Sprintf("Without one of a hundred rows: the first %d", p.percent()), Tables: []*reproduce.Table{t}}
}
