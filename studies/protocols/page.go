package protocols

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/plot"

	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/reproduce"
)

// page shows the scores of all methods and how they depend on the precision.
func (p *protocol) page(r *reproduce.Results) (*reproduce.Page, error) {
	runs, err := p.readRuns(r, "run")
	if err != nil {
		return nil, err
	}
	page := p.newPage(
		"Networks are trained on random halves of the training rows. What a method's scores of a half add up to is compared with the outcome of the network trained on it: the linear datamodeling score is Spearman's rank correlation over the halves, averaged over the test rows. It has no unit; 1 is a perfect prediction of the order, and a positive score of a training row says that the row raises the margin of the test row's true class.",
		"The intervals hold 95 % of bootstrap means over test rows, given the halves; the standard error over halves is by a jackknife in ten groups.")
	scores, err := p.scores(r, &judgement{title: "Linear datamodeling scores", table: "scores", ceiling: "ceiling", set: "half", sets: "halves", runs: runs})
	if err != nil {
		return nil, err
	}
	precisions, err := p.precisions(r, runs[0])
	if err != nil {
		return nil, err
	}
	page.Sections = []reproduce.Section{*scores, *precisions}
	return page, nil
}

// newPage returns a page with the settings of the protocol.
func (p *protocol) newPage(lead ...string) *reproduce.Page {
	page := &reproduce.Page{Title: "Attributions against networks trained again: " + p.name, Lead: lead}
	if p.test > 1 {
		page.Setting("training rows, test rows", fmt.Sprintf("%d, %d", p.train, p.test))
	} else {
		page.Setting("training rows", fmt.Sprint(p.train))
	}
	switch {
	case p.halves > 0:
		page.Setting("halves", fmt.Sprint(p.halves))
	case p.left > 0:
		page.Setting("rows left out, one at a time", fmt.Sprint(p.left))
	}
	page.Setting("hidden units", fmt.Sprint(p.hidden))
	page.Setting("training", fmt.Sprintf("SGD, step %g, momentum %g, minibatches of %d, %d epochs, dropout %g, no weight decay", rate, momentum, batch, p.epochs, p.dropout))
	page.Setting("prior precision of contributions and removals", fmt.Sprintf("%.4g, by the length of the training: rows·(1 − momentum)/(step size·steps)", p.precision()))
	page.Setting("checkpoints of TracIn and along the training", fmt.Sprintf("after %v of the steps", p.shares))
	page.Setting("at θ* along the training", fmt.Sprintf("after %v of the steps, precision %.4g, twice the above", p.early, p.halved()))
	page.Setting("rows of the covariance", fmt.Sprintf("those of strength above %g", p.strength))
	return page
}

// readRuns returns the outcomes of each run of a kind.
func (p *protocol) readRuns(r *reproduce.Results, kind string) ([]*mat.Dense, error) {
	var runs []*mat.Dense
	for k := range p.options.Runs {
		m, err := readMatrix(r, fmt.Sprintf("%s-%d", kind, k))
		if err != nil {
			return nil, err
		}
		runs = append(runs, m)
	}
	return runs, nil
}

// readMatrix returns the result of a step that is a matrix.
func readMatrix(r *reproduce.Results, key string) (*mat.Dense, error) {
	var have matrix
	if err := r.Get(key, &have); err != nil {
		return nil, err
	}
	return have.dense()
}

// models adds up the predictions of the first networks, by method. order are the methods'
// names.
func (p *protocol) models(r *reproduce.Results, count int) (sums map[string]*mat.Dense, order []string, err error) {
	sums = map[string]*mat.Dense{}
	for m := range count {
		var list, path []judged
		if err := r.Get(fmt.Sprintf("model-%d", m), &list); err != nil {
			return nil, nil, err
		}
		if err := r.Get(fmt.Sprintf("path-%d", m), &path); err != nil {
			return nil, nil, err
		}
		for _, j := range append(list, path...) {
			one, err := j.Predictions.dense()
			if err != nil {
				return nil, nil, err
			}
			if have := sums[j.Name]; have != nil {
				have.Add(have, one)
				continue
			}
			sums[j.Name], order = one, append(order, j.Name)
		}
	}
	return sums, order, nil
}

// A judgement is what the scores of all methods are compared with.
type judgement struct {
	title, text    string
	table, ceiling string // names of the tables; the plot has that of the first
	set, sets      string // what the outcomes differ by, such as half and halves
	runs           []*mat.Dense
	mean           bool // whether the score is that against the mean of runs, and not against the first
}

// scores is the section of all methods.
func (p *protocol) scores(r *reproduce.Results, j *judgement) (*reproduce.Section, error) {
	s := &reproduce.Section{Title: j.title}
	if j.text != "" {
		s.Text = append(s.Text, j.text)
	}
	agreement := math.NaN()
	if len(j.runs) > 1 {
		score := evaluate.Datamodel(j.runs[0], j.runs[1], 0)
		agreement = score.Mean
		s.Text = append(s.Text, fmt.Sprintf("Two runs on the same %s correlate by %.3f (%.3f to %.3f), so that no method can have more than %.3f against one run a %s.", j.set, score.Mean, score.Low, score.High, evaluate.Ceiling(agreement, 1), j.set))
	}
	counts := []int{1}
	if p.options.Models > 1 {
		counts = append(counts, p.options.Models)
	}
	var mean mat.Dense
	mean.CloneFrom(j.runs[0])
	for _, run := range j.runs[1:] {
		mean.Add(&mean, run)
	}
	first, second, ceiling := j.runs[0], &mean, evaluate.Ceiling(agreement, 1)
	against := []string{"one run a " + j.set, "the mean of runs"}
	if j.mean {
		first, second, ceiling = &mean, j.runs[0], evaluate.Ceiling(agreement, len(j.runs))
		against[0], against[1] = against[1], against[0]
	}
	t := &reproduce.Table{Name: j.table, Caption: fmt.Sprintf("Score against %s, and against %s.", against[0], against[1]), Head: []string{"networks", "method", "score", "from", "to", "standard error over " + j.sets, "against " + against[1]}}
	bars := newBars()
	for _, count := range counts {
		sums, order, err := p.models(r, count)
		if err != nil {
			return nil, err
		}
		for _, name := range order {
			one, other := evaluate.Datamodel(sums[name], first, 0), evaluate.Datamodel(sums[name], second, 0)
			t.Rows = append(t.Rows, []reproduce.Cell{reproduce.Count(count), reproduce.Text(name), reproduce.Number(one.Mean), reproduce.Number(one.Low), reproduce.Number(one.High), reproduce.Number(one.Subsets), reproduce.Number(other.Mean)})
			bars.add(name, count, one)
		}
	}
	s.Tables = []*reproduce.Table{t}
	if len(j.runs) > 1 {
		s.Tables = append(s.Tables, &reproduce.Table{Name: j.ceiling, Caption: "Agreement of two runs, and the largest score that any predictions can have.", Head: []string{"agreement", "ceiling of one run", "ceiling of the mean of runs"},
			Rows: [][]reproduce.Cell{{reproduce.Number(agreement), reproduce.Number(evaluate.Ceiling(agreement, 1)), reproduce.Number(evaluate.Ceiling(agreement, len(j.runs)))}}})
	}
	drawn, err := bars.plot(ceiling)
	if err != nil {
		return nil, err
	}
	s.Plots = []*reproduce.Plot{{Name: j.table, Caption: fmt.Sprintf("Scores against %s with their intervals.", against[0]), Width: 560, Height: 360, Grid: reproduce.BesideLegend(drawn)}}
	if len(j.runs) > 1 {
		s.Plots[0].Caption += " The line is the ceiling."
	}
	return s, nil
}

// bars are the scores to draw.
type bars struct {
	names []string
	by    map[int]map[string]evaluate.Score // by number of networks
}

func newBars() *bars { return &bars{by: map[int]map[string]evaluate.Score{}} }

func (b *bars) add(name string, count int, s evaluate.Score) {
	if !slices.Contains(b.names, name) {
		b.names = append(b.names, name)
	}
	if b.by[count] == nil {
		b.by[count] = map[string]evaluate.Score{}
	}
	b.by[count][name] = s
}

// plot draws each method in a row, the best of one network at the top.
func (b *bars) plot(ceiling float64) (*plot.Plot, error) {
	p := reproduce.NewPlot("", "linear datamodeling score", "")
	names := slices.Clone(b.names)
	slices.SortStableFunc(names, func(x, y string) int {
		if b.by[1][x].Mean < b.by[1][y].Mean {
			return -1
		}
		return 1
	})
	p.NominalY(names...)
	colour := 0
	for _, count := range []int{1, b.most()} {
		if count == 1 && colour > 0 {
			continue
		}
		var x, y []float64
		for i, name := range names {
			s := b.by[count][name]
			at := float64(i) + 0.2*float64(colour)
			x, y = append(x, s.Mean), append(y, at)
			if err := reproduce.AddLine(p, "", reproduce.Colour(colour), false, []float64{s.Low, s.High}, []float64{at, at}); err != nil {
				return nil, err
			}
		}
		title := "one network"
		if count > 1 {
			title = fmt.Sprintf("mean of %d networks", count)
		}
		if err := reproduce.AddPoints(p, title, reproduce.Colour(colour), 3, x, y); err != nil {
			return nil, err
		}
		colour++
	}
	if !math.IsNaN(ceiling) {
		return p, reproduce.AddLine(p, "ceiling", reproduce.Colour(6), false, []float64{ceiling, ceiling}, []float64{-0.5, float64(len(names)) - 0.5})
	}
	return p, nil
}

// most is the largest number of networks.
func (b *bars) most() int {
	most := 1
	for count := range b.by {
		most = max(most, count)
	}
	return most
}

// precisions is the section of the precisions that are compared.
func (p *protocol) precisions(r *reproduce.Results, outcomes *mat.Dense) (*reproduce.Section, error) {
	s := &reproduce.Section{Title: "The precision of the prior", Text: []string{"Scores of network 0 under other precisions, with what might choose one without training again: the log evidence (E9) and the negative log likelihood by leave-one-out (E17), both of the linearized model's mode."}}
	t := &reproduce.Table{Name: "precisions", Caption: "One network against one run a half.", Head: []string{"precision", "log evidence", "leave-one-out NLL", "kept rows"}}
	curves := map[string][]float64{}
	var order []string
	for _, delta := range p.deltas {
		var have trial
		if err := r.Get(precisionKey(delta), &have); err != nil {
			return nil, err
		}
		row := []reproduce.Cell{reproduce.Number(delta), reproduce.Number(float64(have.Evidence)), reproduce.Number(float64(have.LeaveOneOut)), reproduce.Count(have.Kept)}
		for _, j := range have.Judged {
			sums, err := j.Predictions.dense()
			if err != nil {
				return nil, err
			}
			score := evaluate.Datamodel(sums, outcomes, 0).Mean
			if curves[j.Name] == nil {
				order, t.Head = append(order, j.Name), append(t.Head, j.Name)
			}
			curves[j.Name] = append(curves[j.Name], score)
			row = append(row, reproduce.Number(score))
		}
		t.Rows = append(t.Rows, row)
	}
	drawn := reproduce.NewPlot("", "prior precision", "linear datamodeling score")
	reproduce.LogAxis(&drawn.X)
	for i, name := range order {
		if err := reproduce.AddCurve(drawn, name, i, p.deltas, curves[name]); err != nil {
			return nil, err
		}
	}
	s.Tables = []*reproduce.Table{t}
	s.Plots = []*reproduce.Plot{{Name: "precisions", Caption: "Scores by precision.", Grid: reproduce.BesideLegend(drawn)}}
	return s, nil
}
