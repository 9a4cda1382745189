// Package certificate says how far the posterior on kept rows may be from that of all
// rows (E16): v_k/(1+‖M‖₂) ≤ v ≤ v_k for the variance of any function value, with M what
// the rows that were dropped would still tell after those that were kept.
//
//	c, err := certificate.Certify(ctx, post, train, sites, prior, theta, nil)
//	if err != nil {
//		return err
//	}
//	fmt.Println(c.VarianceAtMost) // v_k/v, anywhere
//
// # What is a bound, and what an estimate
//
// Where no more rows are dropped than Options.Sample, all numbers are computed exactly.
//
// By default a sample of the dropped rows is looked at, drawn with probabilities in
// proportion to λ. Its intervals are of 95 %, and tests show that they hold that often.
// That of ‖M‖₂ is wide where t/‖M‖₂ is much larger than the sample: a sum of few outer
// products, each of the size t over their number, has a larger norm than its mean. It says
// more with more rows.
//
// With Options.All every dropped row is used, in products with M of random vectors. The
// intervals then are bounds whatever M is, but for a set of random vectors whose
// probability is Certificate.Failure.
package certificate
