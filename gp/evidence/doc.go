// Package evidence chooses the prior variances and the noise variance of a linearized
// network by its log evidence, without validation data (E7)–(E10).
//
//	p := &evidence.Problem{X: train, Y: gp.NewTargets(y, lik), Theta: net.Theta(), Prior: prior}
//	found, err := evidence.Maximize(ctx, p, evidence.Refit, &evidence.Options{PerGroup: true})
//	if err != nil {
//		return err
//	}
//	kernel := ntk.New(found.Prior, net.Theta())
//
// There are four forms of the evidence: at θ*; of the linear-Gaussian model with the sites of θ* held fixed; of the
// refit, with a derivative that includes the movement of the mode; and of the refit with log det B at the sites of
// θ*. See Form for their use. A site is one example's Gaussian approximation of its likelihood, with residual r and
// curvature Λ.
//
// The variables are logarithms of factors: on the prior variances, one factor for all parameters or one for each
// group, and on the noise variance of a Gaussian likelihood.
//
// # How it is computed
//
// The kernels K_g of the groups are formed once and held, one triangle of each, where memory allows; otherwise they
// are formed again in every evaluation. One evaluation takes one Cholesky factor of B = I + RᵀKR for every Newton
// step, starting at the sites of the last mode, and one inverse of B for the derivatives. All derivatives follow
// from
//
//	∂E/∂s_g = ⟨J_gJ_gᵀ, ½ααᵀ − ½RB⁻¹Rᵀ − ½zαᵀ⟩,  z = (I + ΛK)⁻¹q,
//
// with qᵀdf = Σ_i tr(C_ii dΛ_i), so the movement of the mode takes one solve for all groups. Where weight space
// takes less work, for P below about two thirds of N·C, the same numbers come from the Cholesky factor of I + ΦᵀΛΦ
// with Φ = JΣ₀^½. JᵀΛJ is then formed only once if all sites are held. A gp.Scored likelihood always uses function
// space.
//
// Results are the same bit for bit for any GOMAXPROCS.
package evidence
