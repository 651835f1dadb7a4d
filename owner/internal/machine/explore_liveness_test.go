package machine

// wedged looks for a calm world from which the goal need not be reached: a cycle outside of it. What is stuck was found before. It returns
// the cycle's worlds, in order, or none.
func (x *xSearch) wedged() []uint32 {
	const (
		open = 1
		done = 2
	)
	state := make([]uint8, len(x.parent))
	type frame struct {
		at   uint32
		next int
	}
	for start := range x.to {
		if state[start] != 0 || x.to[start].n == 0 {
			continue
		}
		stack := []frame{{uint32(start), 0}}
		state[start] = open
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == int(x.to[top.at].n) {
				state[top.at] = done
				stack = stack[:len(stack)-1]
				continue
			}
			to := x.edges[int(x.to[top.at].first)+top.next]
			top.next++
			switch state[to] {
			case 0:
				state[to] = open
				stack = append(stack, frame{to, 0})
			case open:
				var cycle []uint32
				for i := len(stack) - 1; i >= 0; i-- {
					cycle = append([]uint32{stack[i].at}, cycle...)
					if stack[i].at == to {
						return cycle
					}
				}
			}
		}
	}
	return nil
}
