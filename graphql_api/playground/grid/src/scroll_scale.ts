// Scrolling over more rows than an element can be high. Positions are in pixels.
//
// The content is `total` high. Browsers limit heights, so the scrolled element is at most `limit` high. Then a step of
// the wheel moves the content by the same distance, and a jump of the scroll bar moves it in proportion.

export class ScrollScale {
  /** Position of the first visible pixel in the content. */
  top = 0;
  private physicalTop = 0;

  constructor(
    private total: number,
    private view: number,
    private readonly limit: number,
  ) {}

  get height(): number {
    return Math.min(this.total, this.limit);
  }

  get isScaled(): boolean {
    return this.total > this.limit;
  }

  /** Set the heights of the content and of the visible part. The content stays where it is. */
  resize(total: number, view: number): void {
    this.total = total;
    this.view = view;
    this.top = this.clamp(this.top);
  }

  /** Follow the scroll position of the element. */
  follow(physical: number): void {
    const step = physical - this.physicalTop;
    const last = Math.max(0, this.height - this.view);
    this.physicalTop = physical;
    if (!this.isScaled) this.top = this.clamp(physical);
    else if (Math.abs(step) <= this.view) this.top = this.clamp(this.top + step);
    else this.top = this.clamp((physical / last) * (this.total - this.view));
  }

  /** Whether the element is at an end, and the content is not: then it must be settled, or the wheel has no effect. */
  get isStuck(): boolean {
    const last = Math.max(0, this.height - this.view);
    const isAtStart = this.physicalTop <= 0 && this.top > 0;
    return this.isScaled && (isAtStart || (this.physicalTop >= last && this.top < this.total - this.view));
  }

  /** Move the content, and return the scroll position that the element must have. */
  moveTo(top: number): number {
    this.top = this.clamp(top);
    return this.settle();
  }

  /** The scroll position in proportion to the position in the content. Steps of the wheel move away from it. */
  settle(): number {
    const last = Math.max(0, this.height - this.view);
    const content = Math.max(1, this.total - this.view);
    this.physicalTop = this.isScaled ? Math.round((this.top / content) * last) : this.top;
    // The ends of the scroll bar mean the ends of the content, and nothing between.
    if (this.isScaled && this.top > 0 && this.top < content) this.physicalTop = Math.min(last - 1, Math.max(1, this.physicalTop));
    return this.physicalTop;
  }

  private clamp(top: number): number {
    return Math.max(0, Math.min(top, this.total - this.view));
  }
}
