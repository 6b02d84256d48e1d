// The panel next to the grid. It takes the focus when it opens; Escape closes it.

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import { useSession } from "./session";

/** Give the focus to the grid, once what had it is gone. */
export const focusGrid = (): void => {
  requestAnimationFrame(() => document.querySelector<HTMLElement>("[role=grid]")?.focus());
};

interface Props {
  title: string;
  /** Changes when the panel shows something else, which takes the focus again. */
  of?: string;
  children: ComponentChildren;
}

export const Panel = ({ title, of = "", children }: Props): JSX.Element => {
  const { show } = useSession();
  const heading = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => heading.current?.focus(), [title, of]);
  const close = (): void => {
    show({ panel: null, record: null });
    focusGrid();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    event.preventDefault();
    close();
  };
  return (
    <aside class="panel" aria-label={title} onKeyDown={onKeyDown}>
      <header>
        <h2 tabIndex={-1} ref={heading}>
          {title}
        </h2>
        <button type="button" class="quiet" onClick={close} aria-label={`Close ${title}`}>
          ✕
        </button>
      </header>
      <div class="panel-body">{children}</div>
    </aside>
  );
};
