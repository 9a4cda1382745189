package report

import (
	"fmt"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

// mostGroups is how many groups of a prior are listed in text.
const mostGroups = 6

// PriorText lists the variances of the groups.
func PriorText(p *result.Prior) string {
	var list []string
	for i, g := range p.Groups {
		if i == mostGroups && len(p.Groups) > mostGroups+1 {
			list = append(list, fmt.Sprintf("and of %s", result.Some(len(p.Groups)-i, "more group", "more groups")))
			break
		}
		list = append(list, g.Name+": "+result.Short(float64(g.Variance)))
	}
	text := strings.Join(list, ", ")
	if p.Kind == "g" {
		text += " over the mean Fisher information of each parameter"
	}
	if p.Held > 0 {
		text += "; " + result.Some(p.Held, "parameter is", "parameters are") + " held, as no training output depends on them"
	}
	return text
}
