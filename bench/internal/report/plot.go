package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colours that show on white and on black. What is black here becomes the page's text colour.
var (
	accent = color.NRGBA{R: 0x1a, G: 0x8f, B: 0x6f, A: 0xff} // Tenure
	plain  = color.NRGBA{R: 0x8a, G: 0x93, B: 0xa0, A: 0xff} // rivals
	wrong  = color.NRGBA{R: 0xd1, G: 0x4b, B: 0x3f, A: 0xff} // harm
)

// SVG draws t's plot, or returns "" if it has none. Its text takes the colour that the reader's light or dark scheme asks for.
func SVG(t *Table) (string, error) {
	if t.Plot == "" {
		return "", nil
	}
	p := plot.New()
	p.BackgroundColor = nil
	sans(p)
	var err error
	height := font.Length(48 + 24*len(t.Rows))
	if t.Lines {
		height = 300
		err = lines(p, t)
	} else {
		err = bars(p, t)
	}
	if err != nil {
		return "", fmt.Errorf("report: plot %s: %w", t.ID, err)
	}
	canvas := vgsvg.New(vg.Points(640), vg.Points(float64(height)))
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", fmt.Errorf("report: plot %s: %w", t.ID, err)
	}
	return adapt(b.String(), t.Question), nil
}

const scheme = `<style>svg{color:#1f2328}text{fill:currentColor}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>`

// adapt makes a drawing in black on nothing one in the page's colour, and names fonts of the same widths.
func adapt(svg, title string) string {
	svg = svg[strings.Index(svg, "<svg"):]
	svg = strings.NewReplacer("#000000", "currentColor", "font-family:Liberation Sans", "font-family:Liberation Sans,Arimo,Arial,Helvetica,sans-serif").Replace(svg)
	end := strings.Index(svg, ">") + 1
	return svg[:end] + "<title>" + escape(title) + "</title>" + scheme + svg[end:]
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

func sans(p *plot.Plot) {
	for _, style := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
}

func (t *Table) column(key string) Column {
	for _, c := range t.Columns {
		if c.Key == key {
			return c
		}
	}
	return Column{Key: key, Name: key}
}

func bars(p *plot.Plot, t *Table) error {
	column := t.column(t.Plot)
	p.X.Label.Text = column.Name
	least, most := math.Inf(1), 0.0
	for _, r := range t.Rows {
		if v, ok := r.Values[t.Plot]; ok && (v > 0 || !t.Log) {
			least, most = min(least, v), max(most, v, r.Values[t.Plot+"_most"])
		}
	}
	if most == 0 {
		most = 1
	}
	floor := 0.0
	if t.Log {
		if math.IsInf(least, 1) {
			least = 1
		}
		floor = least / 2
		p.X.Label.Text += ", log scale"
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	}
	var names []string
	for i := range t.Rows {
		row := t.Rows[len(t.Rows)-1-i] // the first on top
		names = append(names, row.Name)
		v, ok := row.Values[t.Plot]
		if !ok {
			continue
		}
		if err := bar(p, float64(i), floor, max(v, floor), barColor(row, column, v)); err != nil {
			return err
		}
		if err := label(p, max(v, floor), float64(i), Number(v)); err != nil {
			return err
		}
	}
	p.NominalY(names...)
	p.X.Min, p.X.Max = floor, most*1.15
	if t.Log {
		p.X.Max = most * math.Pow(most/floor, 0.12)
	}
	p.Y.Min, p.Y.Max = -0.6, float64(len(names))-0.4
	return nil
}

func barColor(r Row, c Column, v float64) color.Color {
	switch {
	case c.Safety && v > 0:
		return wrong
	case r.Ours:
		return accent
	default:
		return plain
	}
}

func bar(p *plot.Plot, y, from, to float64, c color.Color) error {
	polygon, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: y - 0.32}, {X: to, Y: y - 0.32}, {X: to, Y: y + 0.32}, {X: from, Y: y + 0.32}})
	if err != nil {
		return err
	}
	polygon.Color, polygon.LineStyle.Width = c, 0
	p.Add(polygon)
	return nil
}

func label(p *plot.Plot, x, y float64, text string) error {
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: x, Y: y}}, Labels: []string{text}})
	if err != nil {
		return err
	}
	labels.TextStyle[0].Font.Variant = "Sans"
	labels.TextStyle[0].YAlign = -0.4
	labels.Offset.X = vg.Points(4) // beside the bar: a space would be lost in SVG
	p.Add(labels)
	return nil
}

// lines draws the plotted column over the column X, a line for each Row.Name.
func lines(p *plot.Plot, t *Table) error {
	p.X.Label.Text, p.Y.Label.Text = t.column(t.X).Name+", log scale", t.column(t.Plot).Name+", log scale"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	p.Legend.Top, p.Legend.Left = true, true
	series := map[string]plotter.XYs{}
	var order []string
	for _, r := range t.Rows {
		name, _, _ := strings.Cut(r.Name, " · ")
		if _, ok := series[name]; !ok {
			order = append(order, name)
		}
		if x, y := r.Values[t.X], r.Values[t.Plot]; x > 0 && y > 0 {
			series[name] = append(series[name], plotter.XY{X: x, Y: y})
		}
	}
	colors := []color.Color{accent, plain, wrong, color.NRGBA{R: 0x5b, G: 0x7f, B: 0xd6, A: 0xff}, color.NRGBA{R: 0xc0, G: 0x8a, B: 0x1e, A: 0xff}}
	for i, name := range order {
		if len(series[name]) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(series[name])
		if err != nil {
			return err
		}
		line.Color, points.Color = colors[i%len(colors)], colors[i%len(colors)]
		line.Width = vg.Points(1.5)
		p.Add(line, points)
		p.Legend.Add(name, line)
	}
	return nil
}
