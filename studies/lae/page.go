package lae

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"

	"github.com/funcgp/funcgp/studies/reproduce"
)

func labelsKey(m int) string { return strconv.Itoa(m) }

// page shows the results of all steps.
func (s *study) page(r *reproduce.Results) (*reproduce.Page, error) {
	p := &reproduce.Page{Title: "An autoencoder under its posterior", Lead: []string{
		fmt.Sprintf("An autoencoder of %d digits of MNIST, with tanh layers of %v down to the code and the reverse up, is trained online: Adam, minibatches of %d, one drawn network a step, the approximate diagonal of the GGN, a memory of %v and a precision H that begins with 1, that of the prior. The step size is 1e-3, halved when the error of %d held-out digits, reconstructed by one drawn network, has not fallen for 4 epochs; after 8 the training ends, and after %d at most. Errors are means of squares over pixels.", s.train, s.widths, batch, memory, s.valid, s.epochs),
		fmt.Sprintf("%d test digits are told from as many test rows of Kuzushiji-MNIST by scores over %d drawn networks. The source took its held-out digits and 5,000 letters of the training part, and the exact diagonal, which carries 784 columns back. Each row once is the same network with H scaled to the diagonal of all training rows, the Laplace approximation, of which the released rule tends to 5,000 times.", s.test, s.samples),
		fmt.Sprintf("Missing pixels are filled in by %d networks, in %d test digits, and a convolutional network says which digit it is. Labels: the nearest neighbours of a code among those of few labelled digits, each with one code by the mean parameters or one by each drawn network; how many neighbours, of 1 to 10, two-fold cross-validation says.", fillSamples, s.fill),
	}}
	for _, rule := range s.rules {
		section, err := s.section(r, rule)
		if err != nil {
			return nil, err
		}
		p.Sections = append(p.Sections, *section)
	}
	var baselines []judged
	if err := r.Get("baselines", &baselines); err != nil {
		return nil, err
	}
	t := &reproduce.Table{Name: "baselines", Caption: fmt.Sprintf("AUROC of telling letters from digits, by networks that were trained alone: a dropout of %v behind each activation, drawn %d times, and %d seeds.", dropout, s.samples, members), Head: []string{"networks", "output sd", "latent sd", "likelihood", "typicality"}, Digits: 4}
	for _, j := range baselines {
		t.Rows = append(t.Rows, []reproduce.Cell{reproduce.Text(j.Variant), cell(j.OutputSD), cell(j.LatentSD), cell(j.Likelihood), cell(j.Typicality)})
	}
	p.Sections = append(p.Sections, reproduce.Section{Title: "What the source compares with", Tables: []*reproduce.Table{t}})
	return p, nil
}

func (s *study) section(r *reproduce.Results, rule string) (*reproduce.Section, error) {
	var t trained
	var scores []judged
	var f filled
	var labels []labelled
	for key, to := range map[string]any{"train": &t, "scores": &scores, "fill": &f, "labels": &labels} {
		if err := r.Get(key+"-"+rule, to); err != nil {
			return nil, err
		}
	}
	out := &reproduce.Section{Title: "The " + rule + " rule", Text: []string{fmt.Sprintf("%d parameters; %d epochs, of which the %dth was kept. Error of the test digits by the mean parameters %.5f. H is %.3g in the median, from %.3g to %.3g.", t.Parameters, len(t.Train), t.Best, float64(t.Test), float64(t.Precision[1]), float64(t.Precision[0]), float64(t.Precision[2]))}}
	auroc := &reproduce.Table{Name: rule + "-foreign", Caption: "AUROC of telling letters from digits.", Head: []string{"posterior", "output sd", "latent sd", "likelihood", "typicality", "plain error"}, Digits: 4}
	means := &reproduce.Table{Name: rule + "-means", Caption: "Means of the scores of digits and letters.", Head: []string{"posterior", "output sd", "letters", "latent sd", "letters", "−log likelihood", "letters"}, Digits: 3}
	for _, j := range scores {
		auroc.Rows = append(auroc.Rows, []reproduce.Cell{reproduce.Text(j.Variant), cell(j.OutputSD), cell(j.LatentSD), cell(j.Likelihood), cell(j.Typicality), cell(j.Error)})
		row := []reproduce.Cell{reproduce.Text(j.Variant)}
		for k := range j.TestMeans {
			row = append(row, cell(j.TestMeans[k]), cell(j.OthersMeans[k]))
		}
		means.Rows = append(means.Rows, row)
	}
	none := reproduce.Number(math.NaN())
	auroc.Rows = append(auroc.Rows,
		[]reproduce.Cell{reproduce.Text("published: LAE online"), reproduce.Number(.9993), reproduce.Number(.9989), reproduce.Number(.991), none, none},
		[]reproduce.Cell{reproduce.Text("published: VAE"), reproduce.Number(.921), reproduce.Number(.566), reproduce.Number(.744), none, none})
	fill := &reproduce.Table{Name: rule + "-fill", Caption: fmt.Sprintf("Accuracy of the classifier, which has %.4f of the digits themselves.", float64(f.Plain)), Head: []string{"from", "this study", "published", "published: VAE"}, Digits: 3,
		Rows: [][]reproduce.Cell{
			{reproduce.Text("the picture with noise in its upper half"), cell(f.From["upper half noise"]), reproduce.Number(.517), reproduce.Number(.317)},
			{reproduce.Text("the same, through the network twice"), cell(f.From["upper half noise, two rounds"]), none, none},
			{reproduce.Text("the same, ten times"), cell(f.From["upper half noise, ten rounds"]), none, none},
			{reproduce.Text("the full picture"), cell(f.From["full picture"]), reproduce.Number(.821), reproduce.Number(.576)},
			{reproduce.Text("noise"), cell(f.From["noise"]), none, none},
		}}
	few := &reproduce.Table{Name: rule + "-labels", Caption: fmt.Sprintf("Accuracy by so many labels of each class, mean over %d choices of labelled rows and its standard error.", s.repeats), Head: []string{"codes of labelled digits"}, Digits: 3}
	for _, m := range s.labels {
		few.Head = append(few.Head, labelsKey(m))
	}
	panel := reproduce.NewPlot("", "labels of each class", "accuracy")
	reproduce.LogAxis(&panel.X)
	panel.Legend.Top = false
	for i, l := range labels {
		row := []reproduce.Cell{reproduce.Text(l.Variant)}
		var x, y []float64
		for _, m := range s.labels {
			row = append(row, reproduce.Mean(l.Scores[labelsKey(m)]))
			mean, _ := reproduce.MeanSE(l.Scores[labelsKey(m)])
			x, y = append(x, float64(m)), append(y, mean)
		}
		few.Rows = append(few.Rows, row)
		if err := reproduce.AddLine(panel, l.Variant, reproduce.Colour(i), true, x, y); err != nil {
			return nil, err
		}
	}
	course, err := courseOf(&t)
	if err != nil {
		return nil, err
	}
	out.Tables = []*reproduce.Table{auroc, means, fill, few}
	out.Plots = []*reproduce.Plot{
		{Name: rule + "-labels", Caption: "Accuracy by nearest neighbours, with one code of each labelled digit and with those of drawn networks.", Grid: reproduce.One(panel)},
		{Name: rule + "-course", Caption: "Mean squared error of a pixel by drawn networks, over the epochs.", Grid: reproduce.One(course)},
	}
	return out, nil
}

func cell[F ~float64](v F) reproduce.Cell { return reproduce.Number(float64(v)) }

// courseOf draws the errors over the epochs.
func courseOf(t *trained) (*plot.Plot, error) {
	p := reproduce.NewPlot("", "epoch", "error")
	var x, train, valid []float64
	for i := range t.Train {
		x, train, valid = append(x, float64(i+1)), append(train, float64(t.Train[i])), append(valid, float64(t.Valid[i]))
	}
	if err := reproduce.AddLine(p, "training", reproduce.Colour(0), false, x, train); err != nil {
		return nil, err
	}
	return p, reproduce.AddLine(p, "validation", reproduce.Colour(1), false, x, valid)
}
