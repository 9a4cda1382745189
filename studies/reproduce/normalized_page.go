package reproduce

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/funcgp/funcgp/explain/result"
)

// chosen returns the index of the largest value.
func chosen(points []normalizedAt, value func(p normalizedAt) result.Float) int {
	negative := make([]float64, len(points))
	for i, p := range points {
		negative[i] = -float64(value(p))
	}
	return ArgMin(negative)
}

func evidenceTheta(p normalizedAt) result.Float { return p.AtTheta }
func evidenceMode(p normalizedAt) result.Float  { return p.AtMode }
func evidenceRefit(p normalizedAt) result.Float { return p.Refit }
func testTheta(p normalizedAt) result.Float     { return -p.Theta.NLL }

func (s *normalizedStudy) page(r *Results) (*Page, error) {
	var all []normalizedResult
	for seed := range s.seeds {
		var one normalizedResult
		if err := r.Get(s.key(seed), &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	page := &Page{Title: "The evidence of networks with batch normalization", Lead: []string{
		"A normalization takes away the scale of the layer before it, so that no prior precision makes the trained parameters θ* a mode: weight decay pulls at a scale on which the outputs do not depend. " +
			"The evidence (E7) at θ* then counts ‖θ*‖² of training's own making. The evidence at the mode v* of the linearized model, found again at every precision, does not [gprior eq. 9].",
		"At v* there are two. One keeps the curvature Λ of the loss at the trained network for log det B. (E9) takes it at v*, where it vanishes as soon as the linearized model fits its training rows: little then speaks for a larger precision.",
		"All choose a precision δ on the same grid; the test log likelihood at their choices tells which is right. No validation row is looked at.",
	}}
	page.Setting("networks", fmt.Sprintf("%d, conv %d@5×5, conv %d@5×5, hidden layer of %d, each with batch normalization; %d parameters", s.seeds, s.filters, 2*s.filters, s.hidden, all[0].Parameters))
	page.Setting("training", fmt.Sprintf("%d rows, %d epochs of Adam in batches of 100, decay %v", s.rows, s.epochs, trainDecay))
	page.Setting("test rows", fmt.Sprint(s.test))
	page.Setting("precisions", fmt.Sprintf("%d, from %v to %v", len(s.deltas), s.deltas[0], s.deltas[len(s.deltas)-1]))
	page.Setting("predictive", "covariance of the full posterior in weight space, softmax integrated by quasi–Monte Carlo of at most 4,096 points")
	turned, err := s.turnedPlot(all)
	if err != nil {
		return nil, err
	}
	curves, err := s.curves(all)
	if err != nil {
		return nil, err
	}
	page.Sections = []Section{
		{Title: "The precision that each evidence chooses", Tables: []*Table{s.choices(all)}, Plots: curves},
		{Title: "Which layers cannot be at a mode", Text: []string{"‖J w‖/(‖J‖‖w‖) is the share of a layer's influence that goes along its own scale. With the statistics of the training rows, as in training, it vanishes for the layers before a normalization: these are flagged. With running statistics, as in use, it does not."},
			Tables: []*Table{s.diagnosis(all)}},
		{Title: "How much of the outputs each tensor moves under a prior", Text: []string{"The variance that a prior gives the outputs at the training rows, weighted by Λ, is Σ s_p Σ₀_p. Under one precision a tensor has its share of Σ s_p; under the g-prior, whose precisions are in the ratio of s_p, its share of the parameters."},
			Tables: []*Table{s.tensors(all)}},
		{Title: "Turned digits", Tables: []*Table{s.turnedTable(all)}, Plots: []*Plot{turned}},
	}
	return page, nil
}

// choices compares what the two evidences choose, and the best possible.
func (s *normalizedStudy) choices(all []normalizedResult) *Table {
	t := &Table{Name: "choices", Caption: "Means over the networks ± standard error. The predictive has the network's outputs as its mean; the last column has the mean at v*.", Digits: 4,
		Head: []string{"chosen by", "log₁₀ δ", "test log likelihood", "ECE", "test log likelihood of the refit"}}
	for _, row := range []struct {
		name string
		by   func(p normalizedAt) result.Float
	}{{"evidence at θ* (E7)", evidenceTheta}, {"evidence at v*, Λ of θ*", evidenceMode}, {"evidence at v*, Λ of v* (E9)", evidenceRefit}, {"best on the test rows", testTheta}} {
		var logs, lls, eces, refits []float64
		for _, one := range all {
			p := one.Points[chosen(one.Points, row.by)]
			logs, lls = append(logs, math.Log10(float64(p.Delta))), append(lls, -float64(p.Theta.NLL))
			eces, refits = append(eces, float64(p.Theta.ECE)), append(refits, -float64(p.Mode.NLL))
		}
		t.Rows = append(t.Rows, []Cell{Text(row.name), Mean(logs), Mean(lls), Mean(eces), Mean(refits)})
	}
	for _, row := range []struct {
		name string
		of   func(r normalizedResult) normalizedPrior
	}{{"evidence at v*, flagged and other layers apart", func(r normalizedResult) normalizedPrior { return r.Apart }}, {"evidence at v*, g-prior", func(r normalizedResult) normalizedPrior { return r.GPrior }}} {
		var lls, eces, refits []float64
		for _, one := range all {
			p := row.of(one)
			lls, eces, refits = append(lls, -float64(p.At.Theta.NLL)), append(eces, float64(p.At.Theta.ECE)), append(refits, -float64(p.At.Mode.NLL))
		}
		t.Rows = append(t.Rows, []Cell{Text(row.name), {}, Mean(lls), Mean(eces), Mean(refits)})
	}
	var lls, eces []float64
	for _, one := range all {
		lls, eces = append(lls, -float64(one.Network.NLL)), append(eces, float64(one.Network.ECE))
	}
	t.Rows = append(t.Rows, []Cell{Text("the network alone"), {}, Mean(lls), Mean(eces), {}})
	return t
}

func (s *normalizedStudy) diagnosis(all []normalizedResult) *Table {
	t := &Table{Name: "diagnosis", Caption: "‖J w‖/(‖J‖‖w‖), means over the networks, and the number of groups of a layer's nodes each of which may be scaled in training, of the first network [gprior appendix A]", Digits: 5, Head: []string{"layer", "‖w‖", "in use", "in training", "scales", "flagged"}}
	for i, l := range all[0].Layers {
		var norm, use, batches []float64
		flagged := 0
		for _, one := range all {
			norm, use, batches = append(norm, float64(one.Layers[i].Norm)), append(use, float64(one.Layers[i].InUse)), append(batches, float64(one.Layers[i].InBatches))
			if one.Layers[i].Flagged {
				flagged++
			}
		}
		t.Rows = append(t.Rows, []Cell{Text(l.Name), Mean(norm), Mean(use), Mean(batches), Count(l.Scales), Text(fmt.Sprintf("%d of %d", flagged, len(all)))})
	}
	return t
}

// tensors compares what an isotropic prior and the g-prior say of each tensor.
func (s *normalizedStudy) tensors(all []normalizedResult) *Table {
	t := &Table{Name: "tensors", Digits: 4, Head: []string{"tensor", "parameters", "median of log₁₀ s", "share, one precision", "share, g-prior"}}
	most, least := math.Inf(-1), math.Inf(1)
	for i, tensor := range all[0].Tensors {
		var medians, shares []float64
		for _, one := range all {
			shares = append(shares, float64(one.Tensors[i].Share))
			if m := float64(one.Tensors[i].Median); m > 0 {
				medians = append(medians, math.Log10(m))
				most, least = max(most, m), min(least, m)
			}
		}
		t.Rows = append(t.Rows, []Cell{Text(tensor.Name), Count(tensor.Count), Mean(medians), Mean(shares), Number(float64(tensor.Count) / float64(all[0].Parameters))})
	}
	holds := "holds"
	if most < 10*least {
		holds = "does not hold"
	}
	t.Caption = fmt.Sprintf("Means over the networks. The source's claim, that the scales of the Jacobian's columns are heterogeneous, %s: medians of tensors differ by a factor of up to %.2g.", holds, most/least)
	return t
}

// turnedScores are the log likelihoods at an angle, of each network, by turnedBy.
func turnedScores(all []normalizedResult, by, angle int) (values []float64) {
	for _, one := range all {
		values = append(values, float64(one.Turned[by][angle]))
	}
	return values
}

func (s *normalizedStudy) turnedTable(all []normalizedResult) *Table {
	t := &Table{Name: "turned", Head: []string{"degrees"}}
	t.Head = append(t.Head, turnedBy...)
	wins := 0
	for k, angle := range s.angles {
		row := []Cell{Count(int(angle))}
		for by := range turnedBy {
			row = append(row, Mean(turnedScores(all, by, k)))
		}
		if row[4].Value() > max(row[2].Value(), row[3].Value()) {
			wins++
		}
		markBest(row[1:], true)
		t.Rows = append(t.Rows, row)
	}
	t.Caption = fmt.Sprintf("Log likelihood of a turned test digit, means over the networks ± standard error. By the source the g-prior is better than one precision; on turned digits it is at %d of %d angles.", wins, len(s.angles))
	return t
}

func (s *normalizedStudy) turnedPlot(all []normalizedResult) (*Plot, error) {
	p := NewPlot("", "degrees", "log likelihood")
	for by, name := range turnedBy {
		var y []float64
		for k := range s.angles {
			mean, _ := MeanSE(turnedScores(all, by, k))
			y = append(y, mean)
		}
		if err := AddLine(p, name, Colour(by), true, s.angles, y); err != nil {
			return nil, err
		}
	}
	return &Plot{Name: "turned", Caption: "Log likelihood of test digits that are turned against the clock, mean over the networks [gprior fig. 5]", Width: 26 * vg.Centimeter, Grid: BesideLegend(p)}, nil
}

// curves are the evidences and the test log likelihood over the precisions.
func (s *normalizedStudy) curves(all []normalizedResult) ([]*Plot, error) {
	levels, test, size := NewPlot("", "prior precision δ", "log evidence a training row"), NewPlot("", "prior precision δ", "test log likelihood"), NewPlot("", "prior precision δ", "‖parameters‖²")
	for _, one := range []struct {
		on    *plot.Plot
		name  string
		value func(p normalizedAt) float64
		color int
	}{
		{levels, "at θ* (E7)", func(p normalizedAt) float64 { return float64(p.AtTheta) / float64(s.rows) }, 1},
		{levels, "at v*, Λ of θ*", func(p normalizedAt) float64 { return float64(p.AtMode) / float64(s.rows) }, 0},
		{levels, "at v*, Λ of v* (E9)", func(p normalizedAt) float64 { return float64(p.Refit) / float64(s.rows) }, 4},
		{test, "mean f(x;θ*)", func(p normalizedAt) float64 { return -float64(p.Theta.NLL) }, 1},
		{test, "mean and covariance at v*", func(p normalizedAt) float64 { return -float64(p.Mode.NLL) }, 0},
		{size, "v*", func(p normalizedAt) float64 { return float64(p.Norm) }, 0},
	} {
		for seed, result := range all {
			var y []float64
			for _, p := range result.Points {
				y = append(y, one.value(p))
			}
			name := ""
			if seed == 0 {
				name = one.name
			}
			if err := AddLine(one.on, name, Colour(one.color), false, s.deltas, y); err != nil {
				return nil, err
			}
		}
	}
	for seed, result := range all {
		name := func(text string) string {
			if seed > 0 {
				return ""
			}
			return text
		}
		theta, mode, refit := chosen(result.Points, evidenceTheta), chosen(result.Points, evidenceMode), chosen(result.Points, evidenceRefit)
		for _, mark := range []struct {
			on    *plot.Plot
			name  string
			at    int
			y     float64
			color int
		}{
			{levels, "chosen at θ*", theta, float64(result.Points[theta].AtTheta) / float64(s.rows), 3},
			{levels, "chosen at v*", mode, float64(result.Points[mode].AtMode) / float64(s.rows), 2},
			{levels, "chosen by (E9)", refit, float64(result.Points[refit].Refit) / float64(s.rows), 5},
			{test, "", theta, -float64(result.Points[theta].Mode.NLL), 3},
			{test, "", mode, -float64(result.Points[mode].Mode.NLL), 2},
			{test, "", refit, -float64(result.Points[refit].Mode.NLL), 5},
			{test, "chosen at θ*", theta, -float64(result.Points[theta].Theta.NLL), 3},
			{test, "chosen at v*", mode, -float64(result.Points[mode].Theta.NLL), 2},
			{test, "chosen by (E9)", refit, -float64(result.Points[refit].Theta.NLL), 5},
		} {
			if err := AddPoints(mark.on, name(mark.name), Colour(mark.color), 3, []float64{s.deltas[mark.at]}, []float64{mark.y}); err != nil {
				return nil, err
			}
		}
		if err := AddLine(size, name("θ*"), Colour(1), false, []float64{s.deltas[0], s.deltas[len(s.deltas)-1]}, []float64{float64(result.Norm), float64(result.Norm)}); err != nil {
			return nil, err
		}
	}
	for _, p := range []*plot.Plot{levels, test, size} {
		LogAxis(&p.X)
	}
	LogAxis(&size.Y)
	levels.Y.Min, test.Y.Min = max(levels.Y.Min, -5), max(test.Y.Min, -1.5)
	const width = 26 * vg.Centimeter
	return []*Plot{
		{Name: "evidence", Caption: "The three evidences of each network over the prior precision", Width: width, Grid: BesideLegend(levels)},
		{Name: "test", Caption: "Test log likelihood over the prior precision, and what the evidences choose [gprior fig. 5]", Width: width, Grid: BesideLegend(test)},
		{Name: "norm", Caption: "Squared norm of the parameters θ* and of the modes v* of the linearized models [gprior fig. 1]", Width: width, Grid: BesideLegend(size)},
	}, nil
}
