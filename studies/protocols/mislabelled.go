package protocols

import (
	"context"
	"fmt"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/reproduce"
)

// wrongShare is one over the share of training rows whose labels are wrong, and shuffles
// are those of the audit by labels.
const (
	wrongShare = 10
	shuffles   = 4
)

// mislabelled are the steps of which rows with wrong labels are found, for each network
// with wrong labels of its own.
func (p *protocol) mislabelled(add step) (page func(r *reproduce.Results) (*reproduce.Page, error)) {
	for m := range p.options.Models {
		add(fmt.Sprintf("suspects-%d", m), 5, func(ctx context.Context, progress reproduce.Progress) (any, error) {
			return p.suspects(ctx, m, progress)
		})
		add(fmt.Sprintf("labels-%d", m), 1, func(ctx context.Context, progress reproduce.Progress) (any, error) {
			return p.byLabels(ctx, m, progress)
		})
	}
	return p.mislabelledPage
}

// A suspicion is how well a method tells wrong labels from right ones, by AUROC: by the
// score of a row for its own recorded label, and by those of all other rows, where less
// support is more suspicious.
type suspicion struct {
	Name   string       `json:"name"`
	Own    result.Float `json:"own"`
	Others result.Float `json:"others"`
}

// An audited is what the audit by labels says of a data set.
type audited struct {
	AUROC result.Float `json:"auroc"`
	Right result.Float `json:"suggested_right"` // share of wrong labels whose suggestion is the right one
}

// openWrong reads the rows, gives a share of the training rows random wrong labels, and
// takes the training rows with their recorded labels for those that are asked about.
func (p *protocol) openWrong(ctx context.Context, seed int) (d *rows, truth []int, wrong []bool, err error) {
	if d, err = p.open(ctx); err != nil {
		return nil, nil, nil, err
	}
	truth, wrong = evaluate.FlipLabels(d.y, p.outputs, p.train/wrongShare, uint64(seed))
	d.testX, d.testY = d.x, d.y
	return d, truth, wrong, nil
}

// suspects judges all methods on network m, which is trained on wrong labels of its own.
func (p *protocol) suspects(ctx context.Context, m int, progress reproduce.Progress) ([]suspicion, error) {
	d, _, wrong, err := p.openWrong(ctx, m)
	if err != nil {
		return nil, err
	}
	var out []suspicion
	for _, path := range []struct {
		shares  []float64
		methods []evaluate.Method
	}{{p.early, []evaluate.Method{p.alongTraining()}}, {p.shares, p.methods(m)}} {
		q, err := p.trainedOn(ctx, d, m, path.shares)
		if err != nil {
			return nil, err
		}
		for i, method := range path.methods {
			progress(i+1, len(path.methods)+1)
			list, err := method.Attribute(ctx, q)
			if err != nil {
				return nil, err
			}
			for _, a := range list {
				out = append(out, suspect(a, wrong))
			}
		}
	}
	return out, nil
}

// suspect judges scores N×N of rows for the recorded label of each.
func suspect(a evaluate.Attribution, wrong []bool) suspicion {
	auroc := func(suspicions []float64) result.Float { return result.Float(evaluate.Detect(suspicions, wrong).AUROC) }
	return suspicion{a.Name, auroc(evaluate.OwnScores(a.Scores)), auroc(evaluate.OtherScores(a.Scores))}
}

// byLabels audits the labels of network m by a regression on its Jacobian at shuffled
// parameters.
func (p *protocol) byLabels(ctx context.Context, m int, progress reproduce.Progress) (*audited, error) {
	d, truth, wrong, err := p.openWrong(ctx, m)
	if err != nil {
		return nil, err
	}
	q, err := p.trainedOn(ctx, d, m, []float64{1})
	if err != nil {
		return nil, err
	}
	net := q.Network
	_, outputs, _ := net.Dims()
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		return nil, err
	}
	draws := audit.Shuffles(net.Theta(), net.Params(), shuffles, 0, func(theta []float64) (*linearize.Batch, error) {
		moved, err := net.WithTheta(theta)
		if err != nil {
			return nil, err
		}
		return moved.Linearize(ctx, d.x)
	})
	found, err := audit.OfLabels(ctx, ntk.New(prior, net.Theta()), draws, d.y, max(2, outputs), &audit.Options{MostPaired: -1, Limits: linearize.Limits{Progress: func(_ string, done, total int) { progress(done, total) }}})
	if err != nil {
		return nil, err
	}
	suspicions, right := make([]float64, p.train), 0.0
	for i, x := range found.Examples {
		suspicions[i] = -x.LogDensity
		if wrong[i] && x.Suggested == truth[i] {
			right++
		}
	}
	return &audited{result.Float(evaluate.Detect(suspicions, wrong).AUROC), result.Float(right / float64(p.train/wrongShare))}, nil
}

// mislabelledPage shows how well each method finds wrong labels.
func (p *protocol) mislabelledPage(r *reproduce.Results) (*reproduce.Page, error) {
	page := p.newPage(
		fmt.Sprintf("One of %d labels is replaced by another class at random, and a network is trained on all rows. AUROC is the probability that a method ranks a row with a wrong label before one with a right label: 1 is perfect, 0.5 is chance.", wrongShare),
		"By its own score: a row is suspicious where its score for the margin of its own recorded label is large, because little else speaks for that label. By the others: a row is suspicious where the scores of all other rows add up to little.")
	page.Title = "Attributions that find wrong labels: " + p.name
	page.Setting("networks, each with wrong labels of its own", fmt.Sprint(p.options.Models))
	own, others, order := map[string][]float64{}, map[string][]float64{}, []string(nil)
	var auroc, right []float64
	for m := range p.options.Models {
		var list []suspicion
		if err := r.Get(fmt.Sprintf("suspects-%d", m), &list); err != nil {
			return nil, err
		}
		for _, s := range list {
			if own[s.Name] == nil {
				order = append(order, s.Name)
			}
			own[s.Name], others[s.Name] = append(own[s.Name], float64(s.Own)), append(others[s.Name], float64(s.Others))
		}
		var labels audited
		if err := r.Get(fmt.Sprintf("labels-%d", m), &labels); err != nil {
			return nil, err
		}
		auroc, right = append(auroc, float64(labels.AUROC)), append(right, float64(labels.Right))
	}
	t := &reproduce.Table{Name: "suspects", Caption: "AUROC of wrong labels, mean over the networks and its standard error.", Head: []string{"method", "by its own score", "by the others"}}
	for _, name := range order {
		t.Rows = append(t.Rows, []reproduce.Cell{reproduce.Text(name), reproduce.Mean(own[name]), reproduce.Mean(others[name])})
	}
	page.Sections = []reproduce.Section{
		{Title: "By attributions", Tables: []*reproduce.Table{t}},
		{Title: "By the labels", Text: []string{fmt.Sprintf("What gpexplain audit does: the labels are regressed on the network's Jacobian at %d shuffles of its parameters, and each row is predicted without itself.", shuffles)},
			Tables: []*reproduce.Table{{Name: "labels", Caption: "AUROC of wrong labels, and the share of wrong labels for which the right one is suggested.", Head: []string{"AUROC", "suggested label right"},
				Rows: [][]reproduce.Cell{{reproduce.Mean(auroc), reproduce.Mean(right)}}}}},
	}
	return page, nil
}
