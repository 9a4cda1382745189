// Package predictive turns a Gaussian over function values, f ~ N(m, Σ), into probabilities and
// expected responses (E11). A Link is one way to do so.
//
//	var mean, sd mat.Dense
//	link := predictive.DefaultLink(glm.Categorical{}, 10)
//	err := link.PredictTo(&mean, &sd, glm.Categorical{}, &f, &cov)
//
// f is T×C, cov is T·C×C with one block per example, results are T×C. By default a likelihood of
// one's own is integrated exactly for one output and by Monte Carlo for more, unless it also has the
// methods of glm.Marginal, glm.Coupled or glm.Logistic.
//
// E[softmax f] for three or more classes (E20) is integrated row by row: QMC calls for each a softmaxRow, which takes
// the covariance apart by eigenvectors and finds the mode (softmax_row.go), and then integrates over a grid where
// at most three directions matter (softmax_grid.go), over lattice points otherwise (softmax_qmc.go); the sums
// of both are in softmax_sums.go.
//
// Sums run in a fixed order, so results are bit-identical for any GOMAXPROCS.
package predictive
