// Package predictive turns a Gaussian over function values, f ~ N(m, Σ), into probabilities and expected responses
// (E11). A Link is one way to do so.
//
//	var mean, sd mat.Dense
//	link := predictive.DefaultLink(glm.Categorical{}, 10)
//	err := link.PredictTo(&mean, &sd, glm.Categorical{}, &f, &cov)
//
// f is T×C, cov is T·C×C with one C×C block for each example, results are T×C. By default, a likelihood written by
// a user is integrated exactly for one output and by Monte Carlo for more, unless it has the methods of
// glm.Marginal, glm.Coupled or glm.Logistic.
//
// QMC integrates E[softmax f] for three or more classes row by row (E20). A softmaxRow factors the row's covariance
// by eigenvectors and finds the mode (softmax_row.go). At most three important directions are integrated over a
// grid (softmax_grid.go), more over lattice points (softmax_qmc.go). Both add to the sums in softmax_sums.go.
//
// Sums run in a fixed order, so results are the same bit for bit for any GOMAXPROCS.
package predictive
