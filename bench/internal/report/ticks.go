package report

import (
	"math"

	"gonum.org/v1/plot"
)

// decades are ticks of a logarithmic axis: a label at each power of ten, and at 2 and 5 of each where there are few of them.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(least, most float64) []plot.Tick {
	if least <= 0 || most <= least {
		return nil
	}
	few := math.Log10(most/least) < 3
	every := max(1, int(math.Log10(most/least))/6) // so that labels don't run into each other
	var ticks []plot.Tick
	labels := 0
	for power := int(math.Floor(math.Log10(least))); power <= int(math.Ceil(math.Log10(most))); power++ {
		for digit := 1; digit < 10; digit++ {
			v := float64(digit) * math.Pow10(power)
			if v < least || v > most {
				continue
			}
			tick := plot.Tick{Value: v}
			if digit == 1 && power%every == 0 || few && (digit == 2 || digit == 5) {
				tick.Label = Number(v)
				labels++
			}
			ticks = append(ticks, tick)
		}
	}
	if labels < 2 { // one alone does not tell the scale
		for i := range ticks {
			ticks[i].Label = Number(ticks[i].Value)
		}
	}
	return ticks
}
