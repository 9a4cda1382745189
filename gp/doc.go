// Package gp is Gaussian process inference over the functions of a linearized model: sites, the mode, the posterior, its
// evidence, leave-one-out, and the parts from which a prediction is explained.
//
// A posterior of a model of your own takes ten lines. The model is a linearize.Model, the prior an ntk.Prior and the
// likelihood a Likelihood; doc/examples/own has one of each.
//
//	train, err := model.Linearize(ctx, x)           // f(x;θ*) and the Jacobian J at N inputs
//	if err != nil {
//		return err
//	}
//	kernel := ntk.New(prior, theta)                 // κ(x,x') = J(x) Σ₀ J(x')ᵀ
//	y := gp.NewTargets(targets, likelihood)         // N rows
//	post, err := gp.Refit(ctx, kernel, train, y, nil)
//	if err != nil {
//		return err
//	}
//	var mean, cov mat.Dense
//	err = post.PredictTo(ctx, &mean, &cov, test)    // T×C and T·C×C
//	fmt.Println(post.EvidenceRefit().Value)         // in nats; after Fit it is EvidenceAtTheta or EvidenceLinearGaussian
//
// # Start with these five
//
//   - Targets are what is fitted: y, a Likelihood and weights of rows (E23).
//   - Sites are the likelihood's second-order expansion at function values f: r = ∂log p/∂f, Λ = −∂²log p/∂f² and a root
//     Λ = R Rᵀ (E3), (E4). NewSites makes them from Targets. Λ may be singular; it is never inverted.
//   - Fit is the posterior given sites: at f(x;θ*) it is the Laplace posterior. Refit first moves to the mode of the
//     linearized model (E9), where the evidence and leave-one-out mean most.
//   - A Latent predicts: mean and covariance of function values (E6). Package glm/predictive turns these into
//     probabilities and intervals.
//   - A Dual is a Latent whose mean is a sum over training examples, m(x) + Σ C(x,x_i) b_i, and m(x) + Σ κ(x,x_i) α_i
//     (E12), (E14). It leaves examples out in closed form (E15), (E17). Package explain draws on it alone.
//
// # Which posterior
//
// With N examples, C outputs and P parameters:
//
//	Exact                all rows, by the factor of B = I + RᵀKR      8·(N·C)² bytes
//	weightspace.FitSums  all rows, by the precision of the parameters 8·P² bytes, any N
//	kept.Fit             the rows of Λ that say something (E16)       8·n² bytes for n rows
//	sparse.Fit           all rows through inducing examples (E13)     8·M² bytes for M examples
//
// All of them are a Dual. Exact tells derivatives of evidences besides, and goes to other priors, sites and the match without
// forming K again.
//
// # A solver of your own
//
// A Posterior answers as a Dual from two things. A DualMean is the mean m(x) + J(x) w with w = Σ₀Jᵀα, which needs products
// with the Jacobian alone. A Solver is the covariance given the training examples, in four methods: PredictTo and JointTo,
// whose mean is nil then, Jacobian and LogDet. The Posterior checks inputs, sizes and the context for them. Two forms of the
// covariance give all four methods. From
// C(x,x') = κ(x,x') − H(x)H(x')ᵀ with H(x) = κ(x,X) A the posterior Jacobian is J(x) − H(x) AᵀJ(X); from
// C(x,x') = J(x) S J(x')ᵀ it is J(x) S Σ₀⁻¹, where a column of variance 0 may hold any number.
//
//	prior.VarianceTo(variance)                      // P numbers, the diagonal of Σ₀
//	train.MulTransVecTo(pulled, alpha)              // Jᵀα
//	d := gp.DualMean{Data: train, Kernel: kernel, Variance: variance, Sites: sites, Mean: gp.LinearGaussian}
//	err := d.SetDual(alpha, pulled)
//	post, err := gp.NewPosterior(ctx, solver, d)
//
// Here α = b − R B⁻¹ RᵀKb with b = r + Λ(f − m) and B = I + RᵀKR (E4), (E5), and m is the prior mean, by Kernel.MeanTo. At a
// mode α = r. For a mode of package gp/mode, DualMean.SetMode with Mode.Theta finds α and the sites instead, and the solver
// is made for those sites.
//
// A solver that has not seen all rows is a PartialSolver, one with better digits for its own rows an OwnSolver, one that
// works with K in place of the Jacobian a KernelSolver, one whose posterior Jacobian needs few rows a GainSolver, one with a
// part of the covariance that no example informs a SplitSolver, and one with a method Save a SavedSolver.
//
// gptest.Dual tests the posterior, but not LogDet, which the evidence of Fit does.
//
// # How Exact is computed
//
// K and the Cholesky factor of B (E4) share one buffer of N·C×(N·C+1) numbers. B exists for any Λ, singular or zero. All
// results are bit-identical for any GOMAXPROCS. A posterior is immutable and safe for concurrent use. Save writes it to a
// file, with fingerprints of the model, the examples and the prior; Load maps it into memory, in any process, and refuses
// others. Both are for Posterior.Save and Open of package funcgp. The numbered equations are listed in doc/equations.md.
package gp
