package funcgp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/testref"
)

// Which classes the outputs stand for, where the data have as many, fewer or more of them: what an error says to type is
// right for the same data.
func TestClassesOfOutputs(t *testing.T) {
	task := func(outputs int, labels string, data Data) (*problemTask, error) {
		asked, err := checked(&Model{}, &data, &FitOptions{}, "")
		require.NoError(t, err)
		text := "u,y\n"
		for i, label := range strings.Split(labels, ",") {
			text += fmt.Sprintf("%d,%s\n", i, label)
		}
		d := tableOf(t, text)
		got, err := chooseTask(job.New(nil), asked, &trainedModel{Name: "net", Meta: &metadata{}, Outputs: outputs}, d)
		if err == nil {
			_, err = d.Train.Select(nil, 0)
		}
		return got, err
	}
	for _, c := range []struct {
		outputs int
		labels  string
		classes string // of Data.Classes
		want    []int
	}{
		{3, "0,1,2", "", []int{0, 1, 2}}, {3, "7,9,5", "", []int{5, 7, 9}}, {3, "0,1,1", "", []int{0, 1, 2}}, {4, "0,3", "", []int{0, 1, 2, 3}},
		{3, "0,1", "2,0,1", []int{2, 0, 1}}, {3, "1,2", "1,2,3", []int{1, 2, 3}}, {3, "4,9", "4,7,9", []int{4, 7, 9}}, {2, "0,1,2", "0,2", []int{0, 2}},
	} {
		got, err := task(c.outputs, c.labels, Data{Classes: testref.Must(job.SplitNames(c.classes))(t)})
		require.NoError(t, err, c)
		require.Equal(t, c.want, got.Classes)
	}
	for _, c := range []struct {
		outputs int
		labels  string
		want    string
	}{
		{3, "1,2", "2 classes (1,2), but net tells 3 apart; give Data.Classes 0,1,2 if they count from 0, or Data.Classes 1,2,3 from 1"},
		{3, "1,3", "2 classes (1,3), but net tells 3 apart; give Data.Classes 1,2,3 if they count from 1"},
		{3, "0,7", "2 classes (0,7), but net tells 3 apart; name the label of each output with Data.Classes, those that no row has too"},
		{3, "0,1,2,3", "4 classes (0,1,2,3), but net tells 3 apart; name 3 of them with Data.Classes"},
		{1, "1,1", "1 class (1), but net tells 2 apart; take rows of another class too"},
		{3, "a,b", "2 classes (a,b), but net tells 3 apart; name all 3 with Data.ClassNames in the order of the outputs"},
	} {
		_, err := task(c.outputs, c.labels, Data{})
		require.ErrorContains(t, err, c.want)
		for _, typed := range strings.Split(c.want, "Data.Classes ")[1:] {
			list, _, _ := strings.Cut(typed, " ")
			if strings.Contains(list, ",") && strings.Trim(list, "0123456789,") == "" {
				got, err := task(c.outputs, c.labels, Data{Classes: strings.Split(list, ",")})
				require.NoError(t, err)
				require.Equal(t, list, formatInts(got.Classes))
			}
		}
	}
}
