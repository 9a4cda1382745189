// Package evidence chooses the prior variances and the noise variance of a linearized
// network by its log evidence, without validation data (E7)–(E10).
//
//	p := &evidence.Problem{X: train, Y: y, Likelihood: lik, Theta: net.Theta(), Prior: prior}
//	found, err := evidence.Maximize(ctx, p, evidence.Refit, &evidence.Options{PerGroup: true})
//	if err != nil {
//		return err
//	}
//	kernel := ntk.New(found.Prior, net.Theta(), nil)
//
// The evidence is that at θ*, that of the linear-Gaussian model with the sites of θ*
// held fixed, that of the refit, whose derivative includes the moving mode, or that of
// the refit with log det B at the sites of θ*: see Form for when to take which. The
// variables are the logs of factors on the prior variances, one for all parameters or one
// for each group, and on the noise variance of a Gaussian likelihood.
//
// # How it is computed
//
// The kernels K_g of the groups are formed once and held, half of each, where memory
// allows, and formed again where it does not. One evaluation then takes a Cholesky
// factor of B = I + RᵀKR for every Newton step, which starts at the sites of the last
// mode, and for the derivatives one inverse of B. All derivatives follow from
//
//	∂E/∂s_g = ⟨J_gJ_gᵀ, ½ααᵀ − ½RB⁻¹Rᵀ − ½zαᵀ⟩,  z = (I + ΛK)⁻¹q,
//
// with qᵀdf = Σ_i tr(C_ii dΛ_i), so that the moving mode takes one solve for all
// groups. Where weight space takes less work, P below about two thirds of N·C, the
// same quantities come from the Cholesky factor of I + ΦᵀΛΦ with Φ = JΣ₀^½, and JᵀΛJ is
// formed once where all sites are held. A gp.Scored likelihood stays in function space.
//
// Results are bit-identical for any GOMAXPROCS and Options.Workers.
package evidence
