package report

// A PredictionPage shows Predictions as text or HTML.
type PredictionPage struct {
	Predictions *Predictions
	// Quantity names the target of a regression, such as "price"; empty means
	// "target".
	Quantity string
	// Test and Train return the pictures of a test and of a training row; nil shows
	// none.
	Test, Train func(row Index) Picture
	// Invert says that 255 is ink, as in MNIST.
	Invert bool
	// The origin of the report, shown as given; empty strings are left out.
	Model, Data, Command string
}
